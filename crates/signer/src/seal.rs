//! Sealed keys: what the database keeps. A blob opens only as the key, generation and public half that it was sealed
//! as; a changed bit anywhere, another key's id or another generation, and it does not open.
//!
//! ```text
//! offset  length  field
//! 0       1       version, 1 with version 4 keys, 2 with version 6 keys \
//! 1       8       data key id                                           |
//! 9       16      key id                                                |
//! 25      4       generation, big-endian                                |
//! 29      1       number of usages, then one byte each, rising          | associated data
//! ..      1       number of components, 1 or 2; then each:              |
//!         1         roles: 1 primary, 2 signing, 3 both                 |
//!         1         backend                                             |
//!         2         length of the public half, big-endian               |
//!         ..        body of its OpenPGP public-key packet               /
//! ..      12      nonce
//! ..      ..      AES-256-GCM-SIV of:
//!         1         the same version
//!         1         1 if the key expires, else 0
//!         8         expiry, Unix seconds, big-endian; 0 without
//!         2, ..     for each component: length and bytes of the secret
//!         16        tag
//! ```
//!
//! The first component signs; the second, if any, is the primary key. The first byte of a public half is the version of
//! its key, the same for both; a release that knows version 4 keys alone refuses version 2 by name.

use std::sync::Arc;

use sealwright_crypto::algorithm::KeyVersion;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::batch::SealedKey;
use sealwright_proto::limits::{SEALED_BYTES_MAX, USAGES_MAX};
use sealwright_proto::names::KeyId;
use sealwright_proto::status::{Code, Fault};

use crate::public::PublicHalf;
use crate::root::{KeyTag, Sealer};
use crate::secret::Secret;

/// The version of a blob with keys of this version: what has a version 4 key is written as the first release did.
const fn blob_version(key: KeyVersion) -> u8 {
    match key {
        KeyVersion::V4 => 1,
        KeyVersion::V6 => 2,
    }
}

/// A key with its secrets, outside its seal.
pub(crate) struct StoredKey {
    /// Names it for ever.
    pub(crate) key_id: KeyId,
    /// From 1; raised by a renewal.
    pub(crate) generation: u32,
    /// What it may sign, rising.
    pub(crate) usages: Vec<Usage>,
    /// From then on it signs nothing, Unix seconds: the end of primary key or signing subkey, whichever is first.
    pub(crate) expires: Option<i64>,
    /// Makes the signatures.
    pub(crate) signing: StoredComponent,
    /// Certifies.
    pub(crate) primary: Primary,
}

/// Where the primary secret key is.
pub(crate) enum Primary {
    /// It is the component that signs.
    Signs,
    /// It only certifies.
    Separate(StoredComponent),
    /// Not here: an import of a subkey alone.
    Absent,
}

/// One key pair, the secret half as its backend wants it.
pub(crate) struct StoredComponent {
    /// [`crate::backend::Backend::number`].
    pub(crate) backend: u8,
    /// Bound to the seal.
    pub(crate) public: Arc<PublicHalf>,
    /// Sealed.
    pub(crate) secret: Secret,
}

const ROLE_PRIMARY: u8 = 1;
const ROLE_SIGNING: u8 = 2;
const ROLE_BOTH: u8 = 3;

impl StoredKey {
    /// # Errors
    /// [`Code::LimitExceeded`] if the blob would be larger than [`SEALED_BYTES_MAX`]; [`Code::Internal`].
    pub(crate) fn seal(&self, sealer: &Sealer) -> Result<Vec<u8>, Fault> {
        let too_large = || Fault::new(Code::LimitExceeded, "the key is too large to be sealed");
        let (signing_role, second) = match &self.primary {
            Primary::Signs => (ROLE_BOTH, None),
            Primary::Separate(primary) => (ROLE_SIGNING, Some(primary)),
            Primary::Absent => (ROLE_SIGNING, None),
        };
        let components = [Some((signing_role, &self.signing)), second.map(|primary| (ROLE_PRIMARY, primary))];
        let version = blob_version(self.signing.public.version());
        let mut header = vec![version];
        header.extend(sealer.tag().0);
        header.extend(self.key_id.as_bytes());
        header.extend(self.generation.to_be_bytes());
        header.push(u8::try_from(self.usages.len()).map_err(|_| too_large())?);
        header.extend(self.usages.iter().map(|usage| usage.id()));
        header.push(if second.is_some() { 2 } else { 1 });
        let (flag, expires) = ([version, u8::from(self.expires.is_some())], self.expires.unwrap_or(0));
        let mut lengths = Vec::new();
        let components: Vec<_> = components.into_iter().flatten().collect();
        for (role, component) in &components {
            if blob_version(component.public.version()) != version {
                return Err(Fault::new(Code::Internal, "a key with components of two versions"));
            }
            header.extend([*role, component.backend]);
            push_bytes(&mut header, component.public.body()).ok_or_else(too_large)?;
            let len = u16::try_from(component.secret.expose().len()).map_err(|_| too_large())?;
            lengths.push(len.to_be_bytes());
        }
        let expires = expires.to_be_bytes();
        let mut parts: Vec<&[u8]> = vec![&flag, &expires];
        for (len, (_, component)) in lengths.iter().zip(&components) {
            parts.extend([len.as_slice(), component.secret.expose()]);
        }
        let failed = |error: crate::error::Error| Fault::from(&error);
        let secret = Secret::joined(&parts).map_err(failed)?;
        let sealed = sealer.seal(secret.expose(), &header).map_err(failed)?;
        let blob = [header, sealed].concat();
        if blob.len() > SEALED_BYTES_MAX { Err(too_large()) } else { Ok(blob) }
    }

    /// Opens `key.blob`, which must be what was sealed as `key.key_id` in `key.generation`.
    ///
    /// # Errors
    /// [`Code::RootKeyWrong`] if another data key sealed it; [`Code::SealBroken`] otherwise; [`Code::Unsupported`] for
    /// a newer version.
    pub(crate) fn open(sealer: &Sealer, key: &SealedKey) -> Result<Self, Fault> {
        let (header, sealed) = Header::parse(&key.blob)?;
        if header.data_key != sealer.tag() {
            let message = format!(
                "wrong root key: key {} is sealed under data key {}, the one here is {}",
                key.key_id,
                header.data_key,
                sealer.tag()
            );
            return Err(Fault::new(Code::RootKeyWrong, message));
        }
        if header.key_id != key.key_id {
            return Err(broken(&format!(
                "the blob of key {} is stored as key {}",
                header.key_id, key.key_id
            )));
        }
        if header.generation != key.generation {
            return Err(broken(&format!(
                "key {}: a blob of generation {} is stored as generation {}",
                key.key_id, header.generation, key.generation
            )));
        }
        let associated = key.blob.get(..header.len).unwrap_or_default();
        let secret = sealer
            .open(sealed, associated)
            .map_err(|error| Fault::from(&error))?
            .ok_or_else(|| broken(&format!("the seal of key {} is broken", key.key_id)))?;
        header.complete(&secret).ok_or_else(|| broken(&format!("key {} is not well formed", key.key_id)))
    }
}

/// The associated data, parsed but not yet believed.
struct Header {
    len: usize,
    version: u8,
    data_key: KeyTag,
    key_id: KeyId,
    generation: u32,
    usages: Vec<Usage>,
    /// Role, backend, public half.
    components: Vec<(u8, u8, PublicHalf)>,
}

impl Header {
    fn parse(blob: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let mut reader = Reader(blob);
        let version = reader.byte().ok_or_else(|| broken("an empty blob"))?;
        if !KeyVersion::ALL.map(blob_version).contains(&version) {
            let message = format!("a sealed key of version {version}; this release knows versions 1 and 2");
            return Err(Fault::new(Code::Unsupported, message));
        }
        let header = Self::parse_fields(version, &mut reader);
        let header = header.ok_or_else(|| broken("a blob is not well formed"))?;
        let len = blob.len().saturating_sub(reader.0.len());
        Ok((Self { len, ..header }, reader.0))
    }

    fn parse_fields(version: u8, reader: &mut Reader<'_>) -> Option<Self> {
        let data_key = KeyTag(*reader.array::<8>()?);
        let key_id = KeyId::parse(reader.array::<16>()?).ok()?;
        let generation = u32::from_be_bytes(*reader.array::<4>()?);
        let count = usize::from(reader.byte()?);
        let usages = reader.take(count)?;
        let usages: Vec<_> =
            usages.iter().map(|id| Usage::from_id(u32::from(*id)).ok()).collect::<Option<_>>()?;
        let rising = usages.windows(2).all(|pair| pair.first() < pair.last());
        if usages.is_empty() || usages.len() > USAGES_MAX || !rising {
            return None;
        }
        let mut components = Vec::new();
        for _ in 0..reader.byte().filter(|count| matches!(count, 1 | 2))? {
            let (role, backend) = (reader.byte()?, reader.byte()?);
            let public = PublicHalf::parse(reader.bytes()?).ok()?;
            if blob_version(public.version()) != version {
                return None;
            }
            components.push((role, backend, public));
        }
        Some(Self { len: 0, version, data_key, key_id, generation, usages, components })
    }

    /// Joins the opened secrets to the header.
    fn complete(self, secret: &Secret) -> Option<StoredKey> {
        let mut reader = Reader(secret.expose());
        if reader.byte()? != self.version {
            return None;
        }
        let flag = reader.byte()?;
        let expires = i64::from_be_bytes(*reader.array::<8>()?);
        let expires = match (flag, expires) {
            (0, 0) => None,
            (1, expires) => Some(expires),
            _ => return None,
        };
        let mut components = Vec::new();
        for (role, backend, public) in self.components {
            let bytes = reader.bytes()?.len();
            let end = secret.expose().len().checked_sub(reader.0.len())?;
            let secret = secret.part(end.checked_sub(bytes)?..end)?;
            components.push((role, StoredComponent { backend, public: Arc::new(public), secret }));
        }
        if !reader.0.is_empty() {
            return None;
        }
        let second = if components.len() == 2 { components.pop() } else { None };
        let (role, signing) = components.pop()?;
        let primary = match (role, second) {
            (ROLE_BOTH, None) => Primary::Signs,
            (ROLE_SIGNING, None) => Primary::Absent,
            (ROLE_SIGNING, Some((ROLE_PRIMARY, primary))) => Primary::Separate(primary),
            _ => return None,
        };
        let Self { key_id, generation, usages, .. } = self;
        Some(StoredKey { key_id, generation, usages, expires, signing, primary })
    }
}

fn broken(message: &str) -> Fault {
    Fault::new(Code::SealBroken, message)
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.extend(u16::try_from(bytes.len()).ok()?.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

/// Takes fields off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| *byte)
    }

    /// A length of two bytes, then as many.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = u16::from_be_bytes(*self.array::<2>()?);
        self.take(usize::from(len))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::backend::software::Software;
    use crate::root::Root;
    use sealwright_crypto::algorithm::KeyAlgorithm;

    pub(crate) const ID: [u8; 16] = [0x01, 0x98, 0xf3, 0, 0, 1, 0x7a, 0xbc, 0x9d, 0, 1, 2, 3, 4, 5, 6];

    fn component_of(version: KeyVersion, created: u32) -> StoredComponent {
        let (numbers, secret) = Software.generate(KeyAlgorithm::Ed25519).unwrap();
        let public = Arc::new(PublicHalf::new(version, created, &numbers).unwrap());
        StoredComponent { backend: 1, public, secret }
    }

    fn component(created: u32) -> StoredComponent {
        component_of(KeyVersion::V4, created)
    }

    pub(crate) fn stored(primary: Primary) -> StoredKey {
        StoredKey {
            key_id: KeyId::parse(&ID).unwrap(),
            generation: 3,
            usages: vec![Usage::OpenPgp],
            expires: Some(2_000_000_000),
            signing: component(1_000_000_000),
            primary,
        }
    }

    fn sealer() -> (tempfile::TempDir, Sealer) {
        let directory = tempfile::tempdir().unwrap();
        let sealer = Root::open(directory.path(), None, true).unwrap().data_key;
        (directory, sealer)
    }

    fn sealed(key: &StoredKey, blob: Vec<u8>) -> SealedKey {
        SealedKey { key_id: key.key_id, generation: key.generation, blob }
    }

    #[test]
    fn what_is_sealed_opens_to_the_same() {
        let (_directory, sealer) = sealer();
        for primary in [Primary::Signs, Primary::Absent, Primary::Separate(component(1))] {
            for expires in [None, Some(0), Some(-1), Some(i64::MAX)] {
                let key = StoredKey { expires, ..stored(Primary::Absent) };
                let key = StoredKey { primary: copy(&primary), ..key };
                let blob = key.seal(&sealer).unwrap();
                let again = StoredKey::open(&sealer, &sealed(&key, blob)).unwrap();
                assert_eq!((again.key_id, again.generation, again.expires), (key.key_id, 3, expires));
                assert_eq!(again.usages, key.usages);
                assert_eq!(again.signing.secret.expose(), key.signing.secret.expose());
                assert_eq!(again.signing.public.body(), key.signing.public.body());
                let same = match (&again.primary, &key.primary) {
                    (Primary::Separate(one), Primary::Separate(two)) => {
                        one.secret.expose() == two.secret.expose()
                    }
                    (Primary::Signs, Primary::Signs) | (Primary::Absent, Primary::Absent) => true,
                    _ => false,
                };
                assert!(same);
            }
        }
    }

    fn copy(primary: &Primary) -> Primary {
        match primary {
            Primary::Signs => Primary::Signs,
            Primary::Absent => Primary::Absent,
            Primary::Separate(one) => Primary::Separate(StoredComponent {
                backend: one.backend,
                public: Arc::clone(&one.public),
                secret: one.secret.clone(),
            }),
        }
    }

    #[test]
    fn a_blob_of_one_key_does_not_open_as_another_key_or_generation() {
        let (_directory, sealer) = sealer();
        let key = stored(Primary::Signs);
        let blob = key.seal(&sealer).unwrap();
        let mut other = ID;
        other[15] ^= 1;
        let other = KeyId::parse(&other).unwrap();
        for wrong in [
            SealedKey { key_id: other, generation: 3, blob: blob.clone() },
            SealedKey { key_id: key.key_id, generation: 2, blob: blob.clone() },
            SealedKey { key_id: key.key_id, generation: 4, blob: blob.clone() },
        ] {
            assert_eq!(StoredKey::open(&sealer, &wrong).err().unwrap().code, Code::SealBroken);
        }
    }

    /// Also with the header altered to agree: then the seal does not open. Every byte of the header is bound:
    /// data key id, key id, generation, usages, roles, backend, public half; and every byte of the seal.
    #[test]
    fn a_blob_with_any_bit_changed_does_not_open() {
        let (_directory, sealer) = sealer();
        let key = stored(Primary::Separate(component(1)));
        let blob = key.seal(&sealer).unwrap();
        for index in 0..blob.len() {
            for bit in 0..8 {
                let mut changed = blob.clone();
                changed[index] ^= 1 << bit;
                // The attacker changes the database's columns along with the blob.
                let key_id = KeyId::parse(&changed[9..25]);
                let generation = u32::from_be_bytes(changed[25..29].try_into().unwrap());
                let as_told = SealedKey { key_id: key_id.unwrap_or(key.key_id), generation, blob: changed };
                assert!(StoredKey::open(&sealer, &as_told).is_err(), "byte {index} bit {bit}");
            }
        }
    }

    #[test]
    fn a_blob_cut_anywhere_or_longer_does_not_open_nor_panic() {
        let (_directory, sealer) = sealer();
        let key = stored(Primary::Signs);
        let blob = key.seal(&sealer).unwrap();
        for len in 0..blob.len() {
            assert!(StoredKey::open(&sealer, &sealed(&key, blob[..len].to_vec())).is_err(), "{len}");
        }
        assert!(StoredKey::open(&sealer, &sealed(&key, [blob, vec![0]].concat())).is_err());
    }

    #[test]
    fn another_data_key_is_named_as_wrong() {
        let (_directory, one) = sealer();
        let (_other_directory, other) = sealer();
        let key = stored(Primary::Signs);
        let fault = StoredKey::open(&other, &sealed(&key, key.seal(&one).unwrap())).err().unwrap();
        assert_eq!(fault.code, Code::RootKeyWrong);
        assert!(fault.message.contains(&one.tag().to_string()), "{}", fault.message);
        assert!(fault.message.contains(&other.tag().to_string()), "{}", fault.message);
    }

    #[test]
    fn a_newer_version_is_unsupported() {
        let (_directory, sealer) = sealer();
        let key = stored(Primary::Signs);
        let mut blob = key.seal(&sealer).unwrap();
        blob[0] = 3;
        assert_eq!(StoredKey::open(&sealer, &sealed(&key, blob)).err().unwrap().code, Code::Unsupported);
    }

    /// Blobs of version 1 are what the first release wrote, and it refuses the others by name.
    #[test]
    fn a_blob_says_the_version_of_its_keys_and_never_another() {
        let (_directory, sealer) = sealer();
        for (version, number) in [(KeyVersion::V4, 1), (KeyVersion::V6, 2)] {
            let primary = Primary::Separate(component_of(version, 1));
            let key = StoredKey { signing: component_of(version, 2), ..stored(primary) };
            let mut blob = key.seal(&sealer).unwrap();
            assert_eq!(blob[0], number);
            let again = StoredKey::open(&sealer, &sealed(&key, blob.clone())).unwrap();
            assert_eq!(again.signing.public.version(), version);
            assert_eq!(again.signing.public.fingerprint(), key.signing.public.fingerprint());
            blob[0] = 3 - number;
            assert_eq!(StoredKey::open(&sealer, &sealed(&key, blob)).err().unwrap().code, Code::SealBroken);
        }
        let mixed = StoredKey {
            signing: component_of(KeyVersion::V6, 2),
            ..stored(Primary::Separate(component_of(KeyVersion::V4, 1)))
        };
        assert_eq!(mixed.seal(&sealer).err().unwrap().code, Code::Internal);
    }

    #[test]
    fn the_secret_is_not_in_the_blob() {
        let (_directory, sealer) = sealer();
        let key = stored(Primary::Signs);
        let blob = key.seal(&sealer).unwrap();
        let secret = key.signing.secret.expose();
        assert!(!blob.windows(secret.len()).any(|window| window == secret));
    }
}
