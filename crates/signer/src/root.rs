//! Root key and data key. The root key wraps one data key; the data key seals the keys in the database. So the
//! root key can move (to a TPM, to another file) by wrapping 32 bytes anew. `docs/WIRE.md` has both files.

use std::io::ErrorKind;
use std::path::Path;

use aes_gcm_siv::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::digest::{Hasher, to_hex};

use crate::count::{self, OPERATIONS_FILE};
use crate::error::Error;
use crate::files::{self, Lock};
use crate::floor::{self, FLOORS_FILE};
use crate::secret::{Secret, fill_random};

/// Name of the root key's file.
pub(crate) const ROOT_KEY_FILE: &str = "root.key";
/// Name of the data key's file.
pub(crate) const DATA_KEY_FILE: &str = "data.key";

const ROOT_KEY_TITLE: &str = "sealwright-root-key 1";
const DATA_KEY_TITLE: &str = "sealwright-data-key 1";

/// Bytes of either file, at most; both are a few lines.
const FILE_BYTES_MAX: u64 = 1024;

/// Bytes of root key and data key: AES-256.
const KEY_BYTES: usize = 32;
/// Bytes of a nonce and of a tag of AES-GCM-SIV (RFC 8452).
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Names a root or data key in files and messages: the head of a hash of it. It reveals nothing, the key being 256
/// random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyTag(pub(crate) [u8; 8]);

impl KeyTag {
    fn of(domain: &str, key: &Secret) -> Self {
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        hasher.update(domain.as_bytes());
        hasher.update(key.expose());
        let digest = hasher.finish();
        Self(digest.as_bytes().first_chunk::<8>().copied().unwrap_or_default())
    }
}

impl core::fmt::Display for KeyTag {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

/// Seals and opens with one key. AES-256-GCM-SIV: a repeated nonce (a snapshot of a virtual machine restored) tells
/// at most that two plaintexts are equal.
///
/// The key stays in locked memory; the cipher with its schedule of keys is made for each use, on the stack, and zeroed.
pub(crate) struct Sealer {
    key: Secret,
    tag: KeyTag,
}

impl Sealer {
    fn new(domain: &str, key: Secret) -> Option<Self> {
        let tag = KeyTag::of(domain, &key);
        (key.expose().len() == KEY_BYTES).then_some(Self { key, tag })
    }

    fn cipher(&self) -> Option<Aes256GcmSiv> {
        Aes256GcmSiv::new_from_slice(self.key.expose()).ok()
    }

    /// The id of its key.
    pub(crate) const fn tag(&self) -> KeyTag {
        self.tag
    }

    /// Nonce, ciphertext and tag of `secret`, bound to `associated`.
    ///
    /// # Errors
    /// [`Error::Random`].
    pub(crate) fn seal(&self, secret: &[u8], associated: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE_BYTES];
        fill_random(&mut nonce)?;
        let mut tag = None;
        let sealed = Secret::filled(secret.len(), |buffer| {
            buffer.copy_from_slice(secret);
            // Fails only above 2^36 bytes.
            let nonce = Nonce::from(nonce);
            tag = self.cipher()?.encrypt_inout_detached(&nonce, associated, buffer.into()).ok();
            Some(())
        })?;
        let (Some(sealed), Some(tag)) = (sealed, tag) else { return Err(Error::Random) };
        Ok([nonce.as_slice(), sealed.expose(), tag.as_slice()].concat())
    }

    /// The inverse of [`Self::seal`]; `None` unless every byte is as it was.
    ///
    /// # Errors
    /// [`Error::Confinement`].
    pub(crate) fn open(&self, sealed: &[u8], associated: &[u8]) -> Result<Option<Secret>, Error> {
        let parts = sealed.split_first_chunk::<NONCE_BYTES>();
        let parts = parts.and_then(|(nonce, rest)| Some((nonce, rest.split_last_chunk::<TAG_BYTES>()?)));
        let Some((nonce, (sealed, tag))) = parts else { return Ok(None) };
        Secret::filled(sealed.len(), |buffer| {
            buffer.copy_from_slice(sealed);
            let (nonce, tag) = (Nonce::from(*nonce), Tag::from(*tag));
            self.cipher()?.decrypt_inout_detached(&nonce, associated, buffer.into(), &tag).ok()
        })
    }
}

/// The opened data key, and the names of both keys.
pub(crate) struct Root {
    pub(crate) data_key: Sealer,
    pub(crate) root_key_id: KeyTag,
}

impl Root {
    /// Opens the keys in `directory`. With `create`, makes the directory and all its files if the signer never had one
    /// in it; a file that was lost is not made anew. Several processes may start at once: they agree under the lock.
    /// The root key can lie elsewhere (`root_key`); then it is somebody else's to make.
    ///
    /// # Errors
    /// [`Error::RootKeyMissing`], [`Error::FileMissing`], [`Error::RootKeyWrong`], [`Error::Damaged`], [`Error::NotPrivate`], [`Error::File`].
    pub(crate) fn open(directory: &Path, root_key: Option<&Path>, create: bool) -> Result<Self, Error> {
        if create {
            files::create_private_directory(directory)?;
        }
        if !is_there(directory) {
            return Err(Error::RootKeyMissing { path: directory.to_owned() });
        }
        files::check_private_directory(directory)?;
        let _lock = Lock::take(directory)?;
        if create {
            prepare(directory, root_key)?;
        }
        let data_path = directory.join(DATA_KEY_FILE);
        let data_file = files::read_private(&data_path, FILE_BYTES_MAX)?;
        let root = read_root_key(directory, root_key)?;
        let damaged = |reason| Error::Damaged { path: data_path.clone(), reason };
        let file = data_file.ok_or_else(|| missing(directory, DATA_KEY_FILE))?;
        let parsed = DataKeyFile::parse(&file).ok_or_else(|| damaged("it is not a data key"))?;
        if parsed.root_key_id != root.tag().to_string() {
            let wanted = parsed.root_key_id.to_owned();
            return Err(Error::RootKeyWrong { path: data_path, wanted, found: root.tag().to_string() });
        }
        let data_key =
            root.open(&parsed.sealed, parsed.associated)?.ok_or_else(|| damaged("its seal is broken"))?;
        let data_key =
            Sealer::new(DATA_KEY_ID_DOMAIN, data_key).ok_or_else(|| damaged("it has a wrong length"))?;
        if parsed.data_key_id != data_key.tag().to_string() {
            return Err(damaged("it has another id than its key"));
        }
        Ok(Self { data_key, root_key_id: root.tag() })
    }
}

const DATA_KEY_ID_DOMAIN: &str = "sealwright data key id";

/// Stands in the directory while its files are made. Nothing was sealed or signed before it is gone.
const MAKING_FILE: &str = "making-keys";

/// All that the signer keeps in its directory beside locks.
const FILES: [&str; 4] = [ROOT_KEY_FILE, DATA_KEY_FILE, FLOORS_FILE, OPERATIONS_FILE];

/// Makes root key, data key, floors and count in the directory, if the signer never had a file in it: for an
/// installation that wants them before the signer starts.
///
/// # Errors
/// [`Error::File`], [`Error::NotPrivate`], [`Error::Random`], [`Error::Confinement`] (no memory can be locked).
pub fn make_root_key(directory: &Path) -> Result<(), Error> {
    files::create_private_directory(directory)?;
    files::check_private_directory(directory)?;
    let _lock = Lock::take(directory)?;
    prepare(directory, None)
}

fn read_root_key(directory: &Path, elsewhere: Option<&Path>) -> Result<Sealer, Error> {
    let path = elsewhere.map_or_else(|| directory.join(ROOT_KEY_FILE), Path::to_owned);
    let read = if elsewhere.is_some() { files::read_placed_secret } else { files::read_secret };
    let file = match read(&path, FILE_BYTES_MAX)? {
        Some(file) => file,
        None if elsewhere.is_some() => return Err(Error::RootKeyMissing { path }),
        None => return Err(missing(directory, ROOT_KEY_FILE)),
    };
    let key = parse_root_key(&file)?.ok_or(Error::Damaged { path, reason: "it is not a root key" })?;
    Sealer::new("sealwright root key id", key).ok_or(Error::Random)
}

/// Makes both keys, and floors and count with nothing in them, in a directory that has no file of the signer's, or in
/// which their making was interrupted; with a root key that lies elsewhere, all but that.
fn prepare(directory: &Path, root_key: Option<&Path>) -> Result<(), Error> {
    let making = directory.join(MAKING_FILE);
    if is_there(&making) {
        for name in FILES {
            files::remove(&directory.join(name))?;
        }
    }
    if present(directory).is_some() {
        return Ok(());
    }
    let root = match root_key {
        Some(_) => Some(read_root_key(directory, root_key)?),
        None => None,
    };
    files::replace_private(directory, MAKING_FILE, b"")?;
    let root = match root {
        Some(root) => root,
        None => Sealer::new("sealwright root key id", create_root_key(directory)?).ok_or(Error::Random)?,
    };
    create_data_key(directory, &root)?;
    floor::create(directory)?;
    count::create(directory)?;
    files::remove(&making)?;
    files::sync_directory(directory)
}

/// A file of the signer's that is there.
fn present(directory: &Path) -> Option<&'static str> {
    FILES.into_iter().find(|name| is_there(&directory.join(name)))
}

/// A link that leads nowhere is there, and so is what cannot be looked at: opening it says why.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true)
}

/// A file of the signer's is not there, and must not be made.
pub(crate) fn missing(directory: &Path, missing: &'static str) -> Error {
    let path = directory.to_owned();
    match present(directory) {
        Some(present) => Error::FileMissing { path, missing, present },
        None => Error::RootKeyMissing { path },
    }
}

fn create_root_key(directory: &Path) -> Result<Secret, Error> {
    let key = Secret::random(KEY_BYTES)?;
    let digits = Secret::filled(KEY_BYTES.saturating_mul(2), |digits| {
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(key.expose()) {
            *pair = [digit(byte >> 4), digit(byte & 15)];
        }
        Some(())
    })?
    .ok_or(Error::Random)?;
    let text = Secret::joined(&[ROOT_KEY_TITLE.as_bytes(), b"\n", digits.expose(), b"\n"])?;
    files::replace_private(directory, ROOT_KEY_FILE, text.expose())?;
    Ok(key)
}

/// Lower case.
const fn digit(value: u8) -> u8 {
    if value < 10 { value.wrapping_add(b'0') } else { value.wrapping_sub(10).wrapping_add(b'a') }
}

/// Title, 64 hexadecimal digits.
fn parse_root_key(file: &Secret) -> Result<Option<Secret>, Error> {
    Secret::filled(KEY_BYTES, |key| {
        let digits = file.expose().strip_prefix(ROOT_KEY_TITLE.as_bytes())?;
        let (pairs, rest) = digits.strip_prefix(b"\n")?.strip_suffix(b"\n")?.as_chunks::<2>();
        (rest.is_empty() && pairs.len() == key.len()).then_some(())?;
        for (byte, pair) in key.iter_mut().zip(pairs) {
            *byte = from_digits(*pair)?;
        }
        Some(())
    })
}

fn create_data_key(directory: &Path, root: &Sealer) -> Result<(), Error> {
    let key = Secret::random(KEY_BYTES)?;
    let id = KeyTag::of(DATA_KEY_ID_DOMAIN, &key);
    let head = format!("{DATA_KEY_TITLE}\nroot-key {}\ndata-key {id}\n", root.tag());
    let sealed = root.seal(key.expose(), head.as_bytes())?;
    let text = format!("{head}sealed {}\n", to_hex(&sealed)).into_bytes();
    files::replace_private(directory, DATA_KEY_FILE, &text)
}

/// Four lines: title, `root-key ID`, `data-key ID`, `sealed HEX`. The first three are bound to the seal.
struct DataKeyFile<'a> {
    root_key_id: &'a str,
    data_key_id: &'a str,
    associated: &'a [u8],
    sealed: Vec<u8>,
}

impl<'a> DataKeyFile<'a> {
    fn parse(file: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(file).ok()?;
        let (head, digits) = text.strip_suffix('\n')?.split_once("sealed ")?;
        let mut lines = head.strip_suffix('\n')?.split('\n');
        if lines.next()? != DATA_KEY_TITLE {
            return None;
        }
        let root_key_id = lines.next()?.strip_prefix("root-key ")?;
        let data_key_id = lines.next()?.strip_prefix("data-key ")?;
        let sealed = from_hex(digits)?;
        let complete = lines.next().is_none()
            && [root_key_id, data_key_id].iter().all(|id| from_hex(id).is_some_and(|id| id.len() == 8));
        complete.then_some(Self { root_key_id, data_key_id, associated: head.as_bytes(), sealed })
    }
}

/// Lower-case hexadecimal digits only.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(pairs.len());
    for pair in pairs {
        bytes.push(from_digits(*pair)?);
    }
    Some(bytes)
}

fn from_digits([high, low]: [u8; 2]) -> Option<u8> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(digit.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    Some(value(high)? << 4 | value(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path(), None, true).unwrap();
        (directory, root)
    }

    #[test]
    fn keys_are_made_once_and_open_again() {
        let (directory, first) = fresh();
        let sealed = first.data_key.seal(b"secret", b"about").unwrap();
        for create in [true, false] {
            let again = Root::open(directory.path(), None, create).unwrap();
            assert_eq!(again.data_key.open(&sealed, b"about").unwrap().unwrap().expose(), b"secret");
            assert!(again.root_key_id == first.root_key_id);
        }
    }

    #[test]
    fn many_that_start_at_once_agree_on_one_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let tags: Vec<_> = std::thread::scope(|scope| {
            let start = || Root::open(&path, None, true).unwrap().data_key.tag().to_string();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(tags.iter().all(|tag| *tag == tags[0]));
    }

    #[test]
    fn a_sealed_byte_that_changed_does_not_open() {
        let (_directory, root) = fresh();
        let sealed = root.data_key.seal(b"secret", b"about").unwrap();
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(root.data_key.open(&changed, b"about").unwrap().is_none(), "{index}");
        }
        assert!(root.data_key.open(&sealed, b"abouT").unwrap().is_none());
        assert!(root.data_key.open(&sealed[..sealed.len() - 1], b"about").unwrap().is_none());
        assert!(root.data_key.open(&[], b"about").unwrap().is_none());
    }

    #[test]
    fn another_root_key_is_named_as_wrong() {
        let (directory, root) = fresh();
        let (other, _) = fresh();
        std::fs::copy(other.path().join(ROOT_KEY_FILE), directory.path().join(ROOT_KEY_FILE)).unwrap();
        let error = Root::open(directory.path(), None, true).err().unwrap();
        let text = error.to_string();
        let Error::RootKeyWrong { wanted, found, .. } = error else { panic!("{text}") };
        assert_eq!(wanted, root.root_key_id.to_string());
        assert_ne!(wanted, found);
        assert!(text.contains(&wanted) && text.contains(&found));
    }

    #[test]
    fn a_lost_file_is_never_made_anew_beside_what_it_belongs_to() {
        let start = |directory: &Path| {
            Root::open(directory, None, true)?;
            floor::Floors::open(directory)?;
            count::Counts::open(directory).map(drop)
        };
        for lost in FILES {
            for beside in FILES.into_iter().filter(|beside| *beside != lost) {
                let (directory, _) = fresh();
                let path = |name: &str| directory.path().join(name);
                std::fs::remove_file(path(lost)).unwrap();
                let error = start(directory.path()).unwrap_err();
                assert!(
                    matches!(error, Error::FileMissing { .. }) && error.to_string().contains(lost),
                    "{error}"
                );
                // And with nothing else left but one.
                FILES
                    .into_iter()
                    .filter(|name| *name != beside)
                    .for_each(|name| files::remove(&path(name)).unwrap());
                let error = start(directory.path()).unwrap_err();
                let text = error.to_string();
                assert!(matches!(error, Error::FileMissing { .. }) && text.contains(beside), "{text}");
                assert!(error.advice().contains("from a backup"), "{}", error.advice());
                assert!(!path(lost).exists(), "{lost} was made anew");
            }
        }
    }

    #[test]
    fn with_a_root_key_elsewhere_the_rest_is_made_once_and_never_anew() {
        let (elsewhere, _) = fresh();
        let root_key = elsewhere.path().join(ROOT_KEY_FILE);
        for lost in [DATA_KEY_FILE, FLOORS_FILE, OPERATIONS_FILE] {
            let directory = tempfile::tempdir().unwrap();
            let start = || {
                Root::open(directory.path(), Some(&root_key), true)?;
                floor::Floors::open(directory.path())?;
                count::Counts::open(directory.path()).map(drop)
            };
            start().unwrap();
            start().unwrap();
            std::fs::remove_file(directory.path().join(lost)).unwrap();
            let error = start().unwrap_err();
            assert!(matches!(error, Error::FileMissing { missing, .. } if missing == lost), "{error}");
        }
    }

    #[test]
    fn keys_whose_making_was_interrupted_are_made_again() {
        for left in [&[][..], &[ROOT_KEY_FILE], &[ROOT_KEY_FILE, DATA_KEY_FILE], &FILES[..3], &FILES] {
            let (directory, before) = fresh();
            for name in FILES {
                if !left.contains(&name) {
                    std::fs::remove_file(directory.path().join(name)).unwrap();
                }
            }
            files::replace_private(directory.path(), MAKING_FILE, b"").unwrap();
            let after = Root::open(directory.path(), None, true).unwrap();
            assert!(after.root_key_id != before.root_key_id);
            assert!(!directory.path().join(MAKING_FILE).exists());
        }
    }

    #[test]
    fn nothing_is_made_unasked() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(Root::open(directory.path(), None, false), Err(Error::RootKeyMissing { .. })));
        let absent = directory.path().join("absent");
        assert!(matches!(Root::open(&absent, None, false), Err(Error::RootKeyMissing { .. })));
        assert!(!absent.exists());
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        for (name, content) in [
            (ROOT_KEY_FILE, ""),
            (ROOT_KEY_FILE, "sealwright-root-key 2\n00\n"),
            (ROOT_KEY_FILE, "sealwright-root-key 1\n00\n"),
            (DATA_KEY_FILE, "junk"),
            (DATA_KEY_FILE, "sealwright-data-key 1\nroot-key 00\ndata-key 00\nsealed 00\n"),
        ] {
            let (directory, _) = fresh();
            std::fs::write(directory.path().join(name), content).unwrap();
            let error = Root::open(directory.path(), None, true).err().unwrap();
            assert!(matches!(&error, Error::Damaged { path, .. } if path.ends_with(name)), "{error}");
        }
    }

    #[test]
    fn every_byte_of_the_data_key_file_counts() {
        let (directory, _) = fresh();
        let path = directory.path().join(DATA_KEY_FILE);
        let good = std::fs::read(&path).unwrap();
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert!(Root::open(directory.path(), None, true).is_err(), "{index}");
        }
    }
}
