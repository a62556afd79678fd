//! Which key of a home each passphrase file means, and whether it can be taken at all. Nothing here asks anybody.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use sealwright_crypto::algorithm::RSA_BITS_MIN;
use sealwright_proto::names::KeyName;

use crate::error::Error;
use crate::gnupg::listing::{Component, SecretKey, Validity};
use crate::migrate::NotTaken;
use crate::shown::shown;

/// Passphrase files of one folder at most.
const PHRASES_MAX: usize = 500_000;

/// One name to take, or the reason why not.
#[derive(Debug)]
pub struct Candidate {
    /// Of the passphrase file, or of the key where there is none.
    pub name: String,
    /// Of the key that is meant.
    pub fingerprint: Option<String>,
    /// What is to be done.
    pub work: Result<Work, NotTaken>,
}

/// A key that can be taken, as far as can be seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// By which it is served.
    pub name: KeyName,
    /// Of its primary key, lower-case hexadecimal.
    pub fingerprint: String,
    /// Its passphrase file.
    pub phrase: PathBuf,
}

/// A passphrase file: the old service serves a key by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phrase {
    /// Of the file, and of the user.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is a regular file, or leads to one.
    pub is_file: bool,
}

/// The passphrase files of a folder, in order of their names. Locks of a keygen service beside them are none.
///
/// # Errors
/// The folder cannot be read, or has more than half a million files.
pub fn phrases(folder: &Path) -> Result<Vec<Phrase>, Error> {
    let io = |source| Error::io("read", folder, source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let (name, path) = (shown(Path::new(&entry.file_name())), entry.path());
        // signd takes no user that begins with a dot.
        if name.starts_with('.') || name.ends_with(".lock") {
            continue;
        }
        if found.len() >= PHRASES_MAX {
            return Err(Error::TooManyFiles { limit: PHRASES_MAX });
        }
        let is_file = path.is_file();
        found.push(Phrase { name, path, is_file });
    }
    found.sort();
    Ok(found)
}

/// One candidate for each passphrase file, in order, then one for each key that none of them means. `now` in Unix seconds.
#[must_use]
pub fn plan(phrases: Vec<Phrase>, keys: &[SecretKey], now: i64) -> Vec<Candidate> {
    let names = Names::of(keys);
    let served: BTreeSet<String> = phrases.iter().map(|phrase| phrase.name.clone()).collect();
    let mut said = BTreeSet::new();
    let mut candidates = Vec::with_capacity(phrases.len());
    for Phrase { name, path, is_file } in phrases {
        let (key, why) = names.meant(&name, now);
        said.extend(key.map(|key| key.fingerprint.as_str()));
        let work = match (key, why) {
            (_, Some(why)) => Err(why),
            (_, None) if !is_file => Err(NotTaken::NoFile),
            (None, None) => Err(NotTaken::NoKey),
            (Some(key), None) => work(&name, &key.fingerprint, path),
        };
        candidates.push(Candidate { name, fingerprint: key.map(|key| key.fingerprint.clone()), work });
    }
    for key in keys.iter().filter(|key| !said.contains(key.fingerprint.as_str())) {
        let name = key.addresses().next().or(key.user_ids.first().map(String::as_str));
        let name = name.unwrap_or(&key.fingerprint).to_owned();
        // One that shares its address with a key that was meant.
        let is_served = key.addresses().any(|address| served.contains(address));
        let why = if is_served { unfit(key, now) } else { Some(NotTaken::NoPhrase) };
        candidates.extend(why.map(|why| Candidate {
            name,
            fingerprint: Some(key.fingerprint.clone()),
            work: Err(why),
        }));
    }
    candidates
}

fn work(name: &str, fingerprint: &str, phrase: PathBuf) -> Result<Work, NotTaken> {
    match KeyName::parse(name) {
        Ok(name) => Ok(Work { name, fingerprint: fingerprint.to_owned(), phrase }),
        Err(fault) => Err(NotTaken::NoName { reason: fault.message }),
    }
}

/// By what a user can be named in gpg's way: address, whole user id, fingerprint, long key id. Never by a part of a user
/// id: what belongs to `b#p@example.org` is not to be found by `#p@example.org`.
struct Names<'a> {
    of: HashMap<&'a str, Vec<&'a SecretKey>>,
}

impl<'a> Names<'a> {
    fn of(keys: &'a [SecretKey]) -> Self {
        let mut of: HashMap<&str, Vec<&SecretKey>> = HashMap::with_capacity(keys.len().saturating_mul(4));
        for key in keys {
            let key_id = key.fingerprint.get(24..40).filter(|_| key.fingerprint.len() == 40);
            let names = key.addresses().chain(key.user_ids.iter().map(String::as_str)).chain(key_id);
            for name in names.chain(std::iter::once(key.fingerprint.as_str())) {
                let keys = of.entry(name).or_default();
                if keys.last().is_none_or(|last| !std::ptr::eq(*last, key)) {
                    keys.push(key);
                }
            }
        }
        Self { of }
    }

    /// The key, and what speaks against taking it.
    fn meant(&self, name: &str, now: i64) -> (Option<&'a SecretKey>, Option<NotTaken>) {
        let hexadecimal = name.strip_prefix("0x").unwrap_or(name).to_ascii_lowercase();
        let found = self.of.get(name).or_else(|| self.of.get(hexadecimal.as_str()));
        let found = found.map(Vec::as_slice).unwrap_or_default();
        let fit: Vec<_> = found.iter().filter(|key| unfit(key, now).is_none()).collect();
        match (fit.as_slice(), found.first()) {
            ([key], _) => (Some(key), None),
            ([], Some(key)) => (Some(key), unfit(key, now)),
            ([], None) => (None, None),
            (several, _) => {
                let fingerprints = several.iter().map(|key| key.fingerprint.clone()).collect();
                (None, Some(NotTaken::SeveralKeys { fingerprints }))
            }
        }
    }
}

/// Why a key cannot be taken, as far as its listing says; what the signer sees in the key itself comes later.
fn unfit(key: &SecretKey, now: i64) -> Option<NotTaken> {
    let primary = key.components.first()?;
    match primary.validity {
        Validity::Revoked => return Some(NotTaken::Revoked),
        Validity::Invalid => return Some(NotTaken::Invalid),
        Validity::Good | Validity::Expired => {}
    }
    if key.is_disabled {
        return Some(NotTaken::Disabled);
    }
    if let Some(at) = end_of(primary, now) {
        return Some(NotTaken::Expired { at });
    }
    let reasons: Vec<Option<NotTaken>> =
        key.components.iter().map(|component| of_one(component, now)).collect();
    if reasons.iter().any(Option::is_none) {
        return None;
    }
    // The nearest to being of use counts.
    let is_told: [fn(&NotTaken) -> bool; 4] = [
        |why| matches!(why, NotTaken::Algorithm { .. }),
        |why| matches!(why, NotTaken::Expired { .. }),
        |why| matches!(why, NotTaken::NoSecret),
        |_| true,
    ];
    let mut reasons: Vec<NotTaken> = reasons.into_iter().flatten().collect();
    let first = is_told.iter().find_map(|is_told| reasons.iter().position(is_told))?;
    Some(reasons.swap_remove(first))
}

fn of_one(component: &Component, now: i64) -> Option<NotTaken> {
    if !component.can_sign || matches!(component.validity, Validity::Revoked | Validity::Invalid) {
        return Some(NotTaken::CannotSign);
    }
    if let Some(at) = end_of(component, now) {
        return Some(NotTaken::Expired { at });
    }
    if !component.has_secret {
        return Some(NotTaken::NoSecret);
    }
    let algorithm = foreign_algorithm(component)?;
    Some(NotTaken::Algorithm { algorithm })
}

fn end_of(component: &Component, now: i64) -> Option<i64> {
    component.expires.filter(|end| *end <= now)
}

/// The name of an algorithm that nothing here signs with (RFC 9580 section 9.1), or of its length.
fn foreign_algorithm(component: &Component) -> Option<String> {
    let named = |name: &str| Some(name.to_owned());
    match (component.algorithm, component.curve.as_str()) {
        (1 | 3, _) if component.bits < u32::from(RSA_BITS_MIN) => Some(format!("RSA {}", component.bits)),
        (1 | 3 | 27, _) | (22, "" | "ed25519") => None,
        (17, _) => Some(format!("DSA {}", component.bits)),
        (19, curve) => Some(format!("ECDSA {curve}")),
        (22, curve) => Some(format!("EdDSA {curve}")),
        (28, _) => named("Ed448"),
        (other, _) => Some(format!("algorithm {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_100_000;

    fn component() -> Component {
        Component {
            validity: Validity::Good,
            algorithm: 1,
            bits: 2048,
            curve: String::new(),
            expires: Some(NOW + 1),
            can_sign: true,
            has_secret: true,
        }
    }

    fn key(number: u8, user_id: &str, change: impl FnOnce(&mut SecretKey)) -> SecretKey {
        let mut key = SecretKey {
            fingerprint: format!("{number:02x}").repeat(20),
            user_ids: vec![user_id.to_owned()],
            is_disabled: false,
            components: vec![component()],
        };
        change(&mut key);
        key
    }

    fn planned(names: &[&str], keys: &[SecretKey]) -> Vec<String> {
        let phrase =
            |name: &&str| Phrase { name: (*name).to_owned(), path: PathBuf::from(name), is_file: true };
        let candidates = plan(names.iter().map(phrase).collect(), keys, NOW);
        let shown = candidates.iter().map(|candidate| match &candidate.work {
            Ok(work) => format!("{} = {}", work.name, &work.fingerprint[..2]),
            Err(why) => format!("{}: {why}", candidate.name),
        });
        shown.collect()
    }

    #[test]
    fn a_passphrase_file_means_the_key_with_its_address_and_never_a_part_of_one() {
        let keys = [key(1, "o_p (None) <ab#p@x.org>", |_| ()), key(2, "o_p (None) <b#p@x.org>", |_| ())];
        assert_eq!(planned(&["ab#p@x.org", "b#p@x.org"], &keys), ["ab#p@x.org = 01", "b#p@x.org = 02"]);
        let no_key = "there is a passphrase file, and no secret key with this address";
        let no_phrase = "no passphrase file has the name of this key: the old service did not serve it";
        assert_eq!(
            planned(&["#p@x.org", "ab#p@x.org"], &keys),
            [format!("#p@x.org: {no_key}"), "ab#p@x.org = 01".into(), format!("b#p@x.org: {no_phrase}")]
        );
    }

    #[test]
    fn what_is_no_file_in_the_folder_of_passphrases_is_named_and_never_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a@x")).unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("b@x")).unwrap();
        let found = phrases(folder.path()).unwrap();
        let candidates = plan(found, &[key(1, "<a@x>", |_| ())], NOW);
        let names: Vec<_> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        assert_eq!(names, ["a@x", "b@x"]);
        assert!(candidates.iter().all(|candidate| matches!(candidate.work, Err(NotTaken::NoFile))));
    }

    #[test]
    fn a_key_can_be_named_by_its_user_id_fingerprint_or_key_id() {
        let keys = [key(0xab, "release", |_| ())];
        assert_eq!(planned(&["release"], &keys), ["release = ab"]);
        let key_id = "AB".repeat(8);
        assert_eq!(planned(&[&format!("0x{key_id}")], &keys), [format!("0x{key_id} = ab")]);
        // No name here may look like a fingerprint.
        assert!(planned(&[&"AB".repeat(20)], &keys)[0].contains("no key can have this name"));
    }

    #[test]
    fn of_keys_with_one_address_the_one_that_can_sign_is_meant_and_two_are_left_to_a_person() {
        let old = key(1, "<a@x>", |key| key.components[0].expires = Some(NOW));
        let keys = [old, key(2, "<a@x>", |_| ())];
        assert_eq!(planned(&["a@x"], &keys), ["a@x = 02", "a@x: it expired 2026-12-01 04:40:00 UTC"]);
        let keys = [key(1, "<a@x>", |_| ()), key(2, "<a@x>", |_| ())];
        let said = planned(&["a@x"], &keys);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(&"01".repeat(20)) && said[0].contains(&"02".repeat(20)), "{said:?}");
    }

    #[test]
    fn what_cannot_be_taken_is_said_before_anybody_is_asked() {
        let of = |change: fn(&mut SecretKey)| {
            let said = planned(&["a@x"], &[key(1, "<a@x>", change)]);
            said.concat().replace("a@x: ", "")
        };
        assert_eq!(of(|key| key.components[0].expires = Some(NOW)), "it expired 2026-12-01 04:40:00 UTC");
        assert_eq!(of(|key| key.components[0].validity = Validity::Revoked), "it is revoked");
        assert_eq!(of(|key| key.is_disabled = true), "it is disabled in the home");
        assert!(of(|key| key.components[0].has_secret = false).contains("secret is not in the home"));
        assert_eq!(of(|key| key.components[0].can_sign = false), "it has no key that may sign");
        assert!(of(|key| key.components[0].algorithm = 17).contains("DSA 2048"));
        assert!(of(|key| key.components[0].bits = 1024).contains("signs with RSA 1024"));
        assert_eq!(of(|key| key.components[0].bits = 2048), "a@x = 01");
        assert!(
            of(|key| {
                key.components[0].algorithm = 19;
                key.components[0].curve = "nistp256".into();
            })
            .contains("ECDSA nistp256")
        );
        // A subkey that signs, under a primary key that is kept elsewhere.
        let with_subkey = of(|key| {
            key.components[0].has_secret = false;
            key.components[0].can_sign = false;
            key.components.push(component());
        });
        assert_eq!(with_subkey, "a@x = 01");
    }
}
