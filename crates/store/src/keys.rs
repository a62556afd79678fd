//! Keys as the database keeps them: names, states, certificates and sealed blobs. Nothing here is secret, and
//! the signer trusts none of it before it has opened the seal.

use futures_util::future::BoxFuture;
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_crypto::openpgp::fingerprint::Fingerprint;
use sealwright_crypto::usage::Usage;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use uuid::Uuid;

use crate::Store;
use crate::error::{Doing as _, Error};
use crate::times::Times;
use crate::transaction::Transaction;
use crate::writer::Work;

/// Most keys in one page of [`Store::keys_after`].
pub const PAGE_MAX: u32 = 100;

/// Longest sealed blob or certificate in bytes; the wire allows no more either.
pub const BLOB_BYTES_MAX: usize = 1 << 20;

/// Longest text of a key (name, user id) in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Whether a key may sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// It may.
    Enabled,
    /// An operator has switched it off.
    Disabled,
}

impl KeyState {
    const fn number(self) -> i64 {
        match self {
            Self::Enabled => 1,
            Self::Disabled => 2,
        }
    }

    pub(crate) const fn from_number(number: i64) -> Result<Self, Error> {
        match number {
            1 => Ok(Self::Enabled),
            2 => Ok(Self::Disabled),
            _ => Err(Error::Damaged { what: "keys.state" }),
        }
    }
}

/// What changes when a key is made, imported or renewed: all of it comes from the signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// Renewal: grows with each new sealed blob.
    pub generation: u32,
    /// Of the component that signs.
    pub algorithm: KeyAlgorithm,
    /// Of the primary key.
    pub fingerprint: Fingerprint,
    /// Of the component that signs.
    pub signing_fingerprint: Fingerprint,
    /// The first user id.
    pub user_id: String,
    /// Unix seconds.
    pub created_s: i64,
    /// Unix seconds; the earlier of primary key and signing subkey. None: no expiry.
    pub expires_s: Option<i64>,
    /// Transferable public key, binary.
    pub certificate: Vec<u8>,
    /// The sealed blob; only the signer can open it.
    pub sealed: Vec<u8>,
    /// The data key under which it is sealed, as the signer says; for operators.
    pub data_key_id: String,
    /// The primary secret is in it.
    pub renewable: bool,
    /// Where its private key is (`software`, `pkcs11:TOKEN`), as the signer says: for display, queues and counts.
    pub backend: String,
}

/// A key as it is inserted.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// UUIDv7, the one that is sealed with the material.
    pub id: Uuid,
    /// Never used before in this store.
    pub name: String,
    /// What is sealed with the key; here for display.
    pub usages: Vec<Usage>,
    /// From the signer.
    pub material: Material,
}

/// A key as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// UUIDv7.
    pub id: Uuid,
    /// Unique in this store for good.
    pub name: String,
    /// Rotation: 1 for the first key of the name.
    pub version: u32,
    /// Whether it may sign.
    pub state: KeyState,
    /// Grows with each change of the row: of two copies the one with the larger number is newer.
    pub revision: i64,
    /// What is sealed with the key, for display.
    pub usages: Vec<Usage>,
    /// From the signer.
    pub material: Material,
    /// Time in the latest logged signature, Unix seconds, as far as this process knows it: another may have appended since. Where
    /// an entry is appended, it is exact.
    pub last_signed_s: Option<i64>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT keys.id, name, version, state, generation, revision, algorithm, fingerprint, signing_fingerprint, ",
            "user_id, created, expires, usages, renewable, certificate, sealed, data_key_id, backend, last_signed ",
            "FROM keys JOIN key_states ON key_states.id = keys.id ",
            $rest
        )
    };
}

const BY_ID: &str = select!("WHERE keys.id = $1");
const BY_NAME: &str = select!("WHERE name = $1 ORDER BY version DESC LIMIT 1");
const BY_SIGNING_FINGERPRINT: &str = select!("WHERE signing_fingerprint = $1");
const BY_FINGERPRINT: &str = select!("WHERE fingerprint = $1 LIMIT 2");
const AFTER: &str = select!(
    "WHERE name > $1 AND NOT EXISTS (SELECT 1 FROM keys AS newer WHERE newer.name = keys.name \
     AND newer.version > keys.version) ORDER BY name LIMIT $2"
);

const INSERT: &str = "INSERT INTO keys (id, name, version, revision, algorithm, fingerprint, signing_fingerprint, \
     user_id, created, usages, renewable, certificate, sealed, data_key_id, backend) \
     VALUES ($1, $2, 1, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING";

const INSERT_STATE: &str = "INSERT INTO key_states (id, state, generation, expires) VALUES ($1, $2, $3, $4)";

const REPLACE: &str = "UPDATE keys SET revision = revision + 1, algorithm = $1, fingerprint = $2, \
     signing_fingerprint = $3, user_id = $4, created = $5, renewable = $6, certificate = $7, \
     sealed = $8, data_key_id = $9, backend = $10 WHERE id = $11";

const RENEW: &str = "UPDATE key_states SET generation = $1, expires = $2 WHERE id = $3 AND generation = $4";

const SET_STATE: &str = "UPDATE key_states SET state = $1 WHERE id = $2 AND state <> $1";

const REVISE: &str = "UPDATE keys SET revision = revision + 1 WHERE id = $1";

impl Store {
    /// The key of this id.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn key_by_id(&self, id: Uuid) -> Result<Option<Key>, Error> {
        let query = sqlx::query(BY_ID).bind(id.as_bytes().as_slice());
        let row = query.fetch_optional(self.readers()).await.doing("read a key")?;
        row.map(|row| parse(&row, self.times())).transpose()
    }

    /// The newest version of the key of this name.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn key_by_name(&self, name: &str) -> Result<Option<Key>, Error> {
        let row = sqlx::query(BY_NAME).bind(name).fetch_optional(self.readers()).await.doing("read a key")?;
        row.map(|row| parse(&row, self.times())).transpose()
    }

    /// The key whose signing component has this fingerprint, else the one whose certificate has it.
    ///
    /// # Errors
    /// [`Error::Ambiguous`] if several keys are of that certificate; those of the database.
    pub async fn key_by_fingerprint(&self, fingerprint: &Fingerprint) -> Result<Option<Key>, Error> {
        let bytes = fingerprint.as_bytes();
        let signing = sqlx::query(BY_SIGNING_FINGERPRINT)
            .bind(bytes)
            .fetch_optional(self.readers())
            .await
            .doing("read a key")?;
        if let Some(row) = signing {
            return Ok(Some(parse(&row, self.times())?));
        }
        let rows =
            sqlx::query(BY_FINGERPRINT).bind(bytes).fetch_all(self.readers()).await.doing("read a key")?;
        match rows.as_slice() {
            [] => Ok(None),
            [row] => Ok(Some(parse(row, self.times())?)),
            [..] => Err(Error::Ambiguous { fingerprint: *fingerprint }),
        }
    }

    /// The keys whose names follow `after` in byte order, at most `limit` and [`PAGE_MAX`] of them.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn keys_after(&self, after: &str, limit: u32) -> Result<Vec<Key>, Error> {
        let limit = i64::from(limit.min(PAGE_MAX));
        let query = sqlx::query(AFTER).bind(after).bind(limit);
        let rows = query.fetch_all(self.readers()).await.doing("list the keys")?;
        rows.iter().map(|row| parse(row, self.times())).collect()
    }

    /// Name and data key of one of the keys; which, is not said. None: there is no key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn any_key(&self) -> Result<Option<(String, String)>, Error> {
        let row = sqlx::query("SELECT name, data_key_id FROM keys LIMIT 1").fetch_optional(self.readers());
        let Some(row) = row.await.doing("read a key")? else { return Ok(None) };
        let text = |column| row.try_get(column).map_err(|_| Error::Damaged { what: "keys.data_key_id" });
        Ok(Some((text(0)?, text(1)?)))
    }

    /// Adds a key, enabled, as version 1 of its name.
    ///
    /// # Errors
    /// [`Error::NameTaken`], [`Error::FingerprintTaken`], [`Error::TooLarge`]; those of the database.
    pub async fn insert_key(&self, key: NewKey) -> Result<Key, Error> {
        check_sizes(&key.name, &key.material)?;
        self.writer().submit(Insert(key)).await?
    }

    /// Replaces the material of a key by a newer generation, if it still has generation `expected`.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], [`Error::GenerationChanged`], [`Error::TooLarge`]; those of the database.
    pub async fn replace_material(&self, id: Uuid, expected: u32, material: Material) -> Result<Key, Error> {
        check_sizes("", &material)?;
        self.writer().submit(Replace { id, expected, material }).await?
    }

    /// Enables or disables a key. Once this has returned, no entry of a disabled key is appended.
    ///
    /// # Errors
    /// [`Error::UnknownKey`]; those of the database.
    pub async fn set_key_state(&self, id: Uuid, state: KeyState) -> Result<Key, Error> {
        self.writer().submit(SetState { id, state }).await?
    }
}

fn check_sizes(name: &str, material: &Material) -> Result<(), Error> {
    let sizes = [
        ("the name", name.len(), TEXT_BYTES_MAX),
        ("the user id", material.user_id.len(), TEXT_BYTES_MAX),
        ("the data key's id", material.data_key_id.len(), TEXT_BYTES_MAX),
        ("the name of the backend", material.backend.len(), TEXT_BYTES_MAX),
        ("the certificate", material.certificate.len(), BLOB_BYTES_MAX),
        ("the sealed key", material.sealed.len(), BLOB_BYTES_MAX),
    ];
    match sizes.into_iter().find(|(_, size, limit)| size > limit) {
        Some((what, size, limit)) => Err(Error::TooLarge { what, size, limit }),
        None => Ok(()),
    }
}

struct Insert(NewKey);

impl Work for Insert {
    type Output = Result<Key, Error>;

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, Error>> {
        Box::pin(async move {
            let (key, material) = (&self.0, &self.0.material);
            let usages: Vec<u8> = key.usages.iter().map(|usage| usage.id()).collect();
            let inserted = sqlx::query(INSERT)
                .bind(key.id.as_bytes().as_slice())
                .bind(&key.name)
                .bind(material.algorithm.to_string())
                .bind(material.fingerprint.as_bytes())
                .bind(material.signing_fingerprint.as_bytes())
                .bind(&material.user_id)
                .bind(material.created_s)
                .bind(usages)
                .bind(i64::from(material.renewable))
                .bind(&material.certificate)
                .bind(&material.sealed)
                .bind(&material.data_key_id)
                .bind(&material.backend)
                .execute(tx.connection())
                .await
                .doing("add a key")?;
            if inserted.rows_affected() == 1 {
                sqlx::query(INSERT_STATE)
                    .bind(key.id.as_bytes().as_slice())
                    .bind(KeyState::Enabled.number())
                    .bind(i64::from(material.generation))
                    .bind(material.expires_s)
                    .execute(tx.connection())
                    .await
                    .doing("add the state of a key")?;
                return read_back(tx, key.id).await;
            }
            let other =
                sqlx::query_scalar::<_, String>("SELECT name FROM keys WHERE signing_fingerprint = $1")
                    .bind(material.signing_fingerprint.as_bytes())
                    .fetch_optional(tx.connection())
                    .await
                    .doing("look for a key of the same fingerprint")?;
            Ok(Err(match other {
                Some(name) if name != key.name => {
                    Error::FingerprintTaken { fingerprint: material.signing_fingerprint, name }
                }
                Some(_) | None => Error::NameTaken { name: key.name.clone() },
            }))
        })
    }
}

struct Replace {
    id: Uuid,
    expected: u32,
    material: Material,
}

impl Work for Replace {
    type Output = Result<Key, Error>;

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, Error>> {
        Box::pin(async move {
            tx.key_changed(*self.id.as_bytes());
            let material = &self.material;
            let renewed = sqlx::query(RENEW)
                .bind(i64::from(material.generation))
                .bind(material.expires_s)
                .bind(self.id.as_bytes().as_slice())
                .bind(i64::from(self.expected))
                .execute(tx.connection())
                .await
                .doing("renew a key")?;
            if renewed.rows_affected() == 1 {
                replace(tx.connection(), self.id, material).await?;
                return read_back(tx, self.id).await;
            }
            Ok(match read_back(tx, self.id).await? {
                Ok(key) => Err(Error::GenerationChanged {
                    name: key.name,
                    expected: self.expected,
                    found: key.material.generation,
                }),
                unknown => unknown,
            })
        })
    }
}

async fn replace(connection: &mut SqliteConnection, id: Uuid, material: &Material) -> Result<(), Error> {
    sqlx::query(REPLACE)
        .bind(material.algorithm.to_string())
        .bind(material.fingerprint.as_bytes())
        .bind(material.signing_fingerprint.as_bytes())
        .bind(&material.user_id)
        .bind(material.created_s)
        .bind(i64::from(material.renewable))
        .bind(&material.certificate)
        .bind(&material.sealed)
        .bind(&material.data_key_id)
        .bind(&material.backend)
        .bind(id.as_bytes().as_slice())
        .execute(connection)
        .await
        .doing("renew a key")?;
    Ok(())
}

struct SetState {
    id: Uuid,
    state: KeyState,
}

impl Work for SetState {
    type Output = Result<Key, Error>;

    fn run<'a>(&'a self, tx: &'a mut Transaction<'_>) -> BoxFuture<'a, Result<Self::Output, Error>> {
        Box::pin(async move {
            tx.key_changed(*self.id.as_bytes());
            let id = self.id.as_bytes().as_slice();
            let changed = sqlx::query(SET_STATE)
                .bind(self.state.number())
                .bind(id)
                .execute(tx.connection())
                .await
                .doing("change the state of a key")?;
            if changed.rows_affected() == 1 {
                let revise = sqlx::query(REVISE).bind(id);
                revise.execute(tx.connection()).await.doing("change the state of a key")?;
            }
            read_back(tx, self.id).await
        })
    }
}

async fn read_back(tx: &mut Transaction<'_>, id: Uuid) -> Result<Result<Key, Error>, Error> {
    let row = sqlx::query(BY_ID)
        .bind(id.as_bytes().as_slice())
        .fetch_optional(tx.connection())
        .await
        .doing("read a key")?;
    Ok(match row {
        Some(row) => Ok(parse(&row, tx.times())?),
        None => Err(Error::UnknownKey),
    })
}

fn parse(row: &SqliteRow, times: &Times) -> Result<Key, Error> {
    fn damaged<E>(what: &'static str) -> impl Fn(E) -> Error {
        move |_| Error::Damaged { what }
    }
    let number = |column: &'static str| row.try_get::<i64, _>(column).map_err(damaged(column));
    let small = |column| u32::try_from(number(column)?).map_err(damaged(column));
    let text = |column: &'static str| row.try_get::<String, _>(column).map_err(damaged(column));
    let bytes = |column: &'static str| row.try_get::<Vec<u8>, _>(column).map_err(damaged(column));
    let fingerprint = |column| Fingerprint::from_bytes(&bytes(column)?).map_err(damaged(column));
    let optional = |column: &'static str| row.try_get::<Option<i64>, _>(column).map_err(damaged(column));
    let usages = bytes("usages")?.into_iter().map(|id| Usage::from_id(id.into()));
    let id = Uuid::from_slice(&bytes("id")?).map_err(damaged("id"))?;
    Ok(Key {
        id,
        name: text("name")?,
        version: small("version")?,
        state: KeyState::from_number(number("state")?)?,
        revision: number("revision")?,
        usages: usages.collect::<Result<_, _>>().map_err(damaged("usages"))?,
        material: Material {
            generation: small("generation")?,
            algorithm: KeyAlgorithm::from_name(&text("algorithm")?).map_err(damaged("algorithm"))?,
            fingerprint: fingerprint("fingerprint")?,
            signing_fingerprint: fingerprint("signing_fingerprint")?,
            user_id: text("user_id")?,
            created_s: number("created")?,
            expires_s: optional("expires")?,
            certificate: bytes("certificate")?,
            sealed: bytes("sealed")?,
            data_key_id: text("data_key_id")?,
            renewable: number("renewable")? == 1,
            backend: text("backend")?,
        },
        last_signed_s: optional("last_signed")?.max(times.of(*id.as_bytes())),
    })
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;

    /// A request must cost the same with ten keys and with a million, with an empty log and with a long one: each
    /// statement of its way finds its rows by an index.
    #[tokio::test]
    async fn no_statement_of_a_request_scans_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).await.unwrap();
        let statements = [
            BY_ID,
            BY_NAME,
            BY_SIGNING_FINGERPRINT,
            BY_FINGERPRINT,
            AFTER,
            REPLACE,
            RENEW,
            SET_STATE,
            REVISE,
            crate::intents::SELECT,
            crate::intents::TAKE_OVER,
            crate::intents::RELEASE,
            crate::intents::RELEASE_REQUEST,
            crate::intents::CONCLUDE,
            crate::intents::PRUNE,
            crate::intents::DISCARD,
            crate::intents::UNSPEND,
            crate::intents::PRUNE_TICKETS,
            crate::log::ENTRIES,
            crate::transaction::KEY,
            crate::transaction::TAIL,
            crate::transaction::SIGNED,
            crate::transaction::HEAD,
        ];
        for statement in statements {
            let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
                .fetch_all(store.readers())
                .await
                .unwrap();
            for step in plan {
                let step: String = step.get("detail");
                let scans = step.starts_with("SCAN") || step.contains("TEMP B-TREE");
                let scans = scans && !step.contains("intents_created");
                assert!(!scans, "{statement}: {step}");
            }
        }
    }
}
