//! What a request asks for: the command with its arguments parsed, in the order in which `signd` looks at them.

use crate::bytes::from_hex;
use crate::digest::{DigestArgument, Hash};
use crate::limits::{EXPIRE_DIGITS_MAX, NAME_BYTES_MAX};
use crate::project_key::ProjectKey;
use crate::refusal::Refusal;
use crate::request::{Request, Verb};

/// A command that could be carried out. Whether this client may have it with this key is the server's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// No result. Arguments are ignored, as in `signd`.
    Ping,
    /// One result: the public key, armored.
    Pubkey,
    /// One signature packet a digest, in their order. One that fails makes the whole reply a refusal.
    Sign {
        /// At least one; all of one hash.
        digests: Vec<DigestArgument>,
    },
    /// The same with a key that the request brings, encrypted to the user's.
    Privsign {
        /// Still encrypted.
        key: ProjectKey,
        /// At least one; all of one hash.
        digests: Vec<DigestArgument>,
    },
    /// Two results: the public key, armored and certified by the user's, and the encrypted secret key in hexadecimal digits.
    Keygen(Keygen),
    /// One result: a decimal code (RFC 6238).
    Privtotp {
        /// An encrypted `otpauth:` URI.
        secret: ProjectKey,
        /// Unix seconds; 0 means now.
        time: u32,
    },
}

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keygen {
    /// Which key.
    pub algorithm: NewKey,
    /// Days until it expires; 0 means never, as gpg understands it.
    pub expire_days: u64,
    /// Without control characters; at most [`NAME_BYTES_MAX`].
    pub real_name: String,
    /// Likewise. Whether it is an address is the server's to say, and whose it is.
    pub email: String,
}

/// The types that `keygen` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NewKey {
    /// `rsa@1024`, `rsa@2048`, `rsa@4096`: bits.
    Rsa(u16),
    /// `dsa@1024`, `dsa@2048`, `dsa@4096`: bits.
    Dsa(u16),
    /// `ed25519` or `eddsa@ed25519`.
    Ed25519,
    /// `nistp256` or `ecdsa@nistp256`.
    NistP256,
    /// `nistp384` or `ecdsa@nistp384`.
    NistP384,
}

impl Request {
    /// The command, once its key is known: `signd` says `unknown key:` before it looks at the command.
    ///
    /// # Errors
    /// The refusal for a command that is unknown or has other arguments than it takes, [`Refusal::Certgen`] and
    /// [`Refusal::Privileged`].
    pub fn command(&self) -> Result<Command, Refusal> {
        let arguments = self.arguments();
        match self.verb() {
            Verb::Ping => Ok(Command::Ping),
            Verb::Pubkey if arguments.is_empty() => Ok(Command::Pubkey),
            Verb::Pubkey => Err(Refusal::PubkeyArguments),
            Verb::Sign if arguments.is_empty() => Err(Refusal::SignArguments),
            Verb::Sign => Ok(Command::Sign { digests: digests(self, &arguments)? }),
            Verb::Privsign => privsign(self, &arguments),
            Verb::Keygen => keygen(&arguments),
            Verb::Privtotp => privtotp(&arguments),
            Verb::Certgen => Err(Refusal::Certgen),
            Verb::Privileged => Err(Refusal::Privileged),
            Verb::Unknown => Err(Refusal::UnknownCommand { command: self.command_name().to_owned() }),
        }
    }
}

fn digests(request: &Request, arguments: &[&str]) -> Result<Vec<DigestArgument>, Refusal> {
    arguments.iter().map(|argument| DigestArgument::parse(argument, request.hash_name())).collect()
}

/// The key comes before the digests, as `signd` decrypts it first.
fn privsign(request: &Request, arguments: &[&str]) -> Result<Command, Refusal> {
    match arguments {
        [key, rest @ ..] if !rest.is_empty() => {
            Ok(Command::Privsign { key: project_key(key)?, digests: digests(request, rest)? })
        }
        _ => Err(Refusal::PrivsignArguments),
    }
}

fn privtotp(arguments: &[&str]) -> Result<Command, Refusal> {
    let [secret, time] = arguments else { return Err(Refusal::PrivtotpArguments) };
    let secret = from_hex(secret).ok_or(Refusal::BadPrivateKey)?;
    let time = from_hex(time).and_then(|time| time.try_into().ok()).ok_or(Refusal::BadTime)?;
    Ok(Command::Privtotp { secret: ProjectKey::parse(&secret)?, time: u32::from_be_bytes(time) })
}

fn project_key(text: &str) -> Result<ProjectKey, Refusal> {
    ProjectKey::parse(&from_hex(text).ok_or(Refusal::BadPrivateKey)?)
}

fn keygen(arguments: &[&str]) -> Result<Command, Refusal> {
    let [algorithm, expire, real_name, email] = arguments else { return Err(Refusal::KeygenArguments) };
    let digits = expire.len() <= EXPIRE_DIGITS_MAX && expire.bytes().all(|byte| byte.is_ascii_digit());
    let expire_days = expire.parse().ok().filter(|_| digits).ok_or(Refusal::BadExpire)?;
    let short = |what, text: &str| {
        if text.len() <= NAME_BYTES_MAX {
            Ok(text.to_owned())
        } else {
            Err(Refusal::NameTooLong { what, size: text.len() })
        }
    };
    let (real_name, email) = (short("real name", real_name)?, short("email", email)?);
    Ok(Command::Keygen(Keygen { algorithm: NewKey::parse(algorithm)?, expire_days, real_name, email }))
}

impl NewKey {
    /// By its name in a request.
    ///
    /// # Errors
    /// [`Refusal::BadType`].
    pub fn parse(name: &str) -> Result<Self, Refusal> {
        Ok(match name {
            "ed25519" | "eddsa@ed25519" => Self::Ed25519,
            "nistp256" | "ecdsa@nistp256" => Self::NistP256,
            "nistp384" | "ecdsa@nistp384" => Self::NistP384,
            "rsa@1024" => Self::Rsa(1024),
            "rsa@2048" => Self::Rsa(2048),
            "rsa@4096" => Self::Rsa(4096),
            "dsa@1024" => Self::Dsa(1024),
            "dsa@2048" => Self::Dsa(2048),
            "dsa@4096" => Self::Dsa(4096),
            _ => return Err(Refusal::BadType { name: name.to_owned() }),
        })
    }
}

impl Keygen {
    /// The arguments in a request.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let algorithm = match self.algorithm {
            NewKey::Rsa(bits) => format!("rsa@{bits}"),
            NewKey::Dsa(bits) => format!("dsa@{bits}"),
            NewKey::Ed25519 => "ed25519".to_owned(),
            NewKey::NistP256 => "nistp256".to_owned(),
            NewKey::NistP384 => "nistp384".to_owned(),
        };
        vec![algorithm, self.expire_days.to_string(), self.real_name.clone(), self.email.clone()]
    }

    /// The request that asks for it; the new key is certified by `user`'s.
    ///
    /// # Errors
    /// [`crate::Error::Request`] if a name cannot be sent.
    pub fn request(&self, user: &str, hash: Hash) -> Result<Request, crate::Error> {
        Request::new_form("keygen", user, hash, self.arguments())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, arguments: &[&str]) -> Result<Command, Refusal> {
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        Request::new_form(name, "user", Hash::Sha256, arguments).unwrap().command()
    }

    fn text(name: &str, arguments: &[&str]) -> String {
        command(name, arguments).unwrap_err().to_string()
    }

    #[test]
    fn a_keygen_gives_its_fields_and_its_arguments_back() {
        let arguments = ["rsa@2048", "800", "proj key", "proj@example.org"];
        let Ok(Command::Keygen(keygen)) = command("keygen", &arguments) else { panic!("no keygen") };
        assert_eq!((keygen.algorithm, keygen.expire_days), (NewKey::Rsa(2048), 800));
        assert_eq!(keygen.arguments(), arguments);
        let request = keygen.request("user", Hash::Sha256).unwrap();
        assert_eq!(request.command(), Ok(Command::Keygen(keygen)));
    }

    #[test]
    fn every_type_of_signd_is_known_and_no_other() {
        for (name, key) in [
            ("rsa@1024", NewKey::Rsa(1024)),
            ("rsa@4096", NewKey::Rsa(4096)),
            ("dsa@2048", NewKey::Dsa(2048)),
            ("ed25519", NewKey::Ed25519),
            ("eddsa@ed25519", NewKey::Ed25519),
            ("nistp256", NewKey::NistP256),
            ("ecdsa@nistp384", NewKey::NistP384),
        ] {
            assert_eq!(NewKey::parse(name), Ok(key));
        }
        for bad in ["", "rsa", "rsa@", "rsa@100", "rsa@3072", "RSA@2048", "rsa@2048 ", "ed448", "dsa@ed25519"]
        {
            assert_eq!(text("keygen", &[bad, "1", "a", "b"]), format!("bad type: {bad}"));
        }
    }

    #[test]
    fn keygen_looks_at_number_days_names_and_type_in_this_order() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(text("keygen", &["bad", "bad", "c"]), "keygen: four arguments expected");
        assert_eq!(text("keygen", &["a", "1", "b", "c", "d"]), "keygen: four arguments expected");
        for bad in ["", "1y", "-1", "+1", "12345678901", " 1", "0x10"] {
            assert_eq!(text("keygen", &["bad", bad, &long, "c"]), "bad expire format", "{bad}");
        }
        assert_eq!(text("keygen", &["bad", "1", &long, "c"]), "real name too long: 256 bytes, at most 255");
        assert_eq!(
            text("keygen", &["bad", "1", "b", &"a".repeat(2000)]),
            "email too long: 2000 bytes, at most 255"
        );
        assert!(command("keygen", &["ed25519", "9999999999", &long[1..], &long[1..]]).is_ok());
    }

    #[test]
    fn commands_with_other_arguments_than_they_take_are_refused_with_signds_texts() {
        assert_eq!(text("pubkey", &["x"]), "pubkey: no argument expected");
        assert_eq!(text("sign", &[]), "sign: at least one arguments required");
        assert_eq!(text("privsign", &["00"]), "privsign: at least two arguments expected");
        assert_eq!(text("privsign", &["0x", "y"]), "bad private key");
        assert_eq!(text("privsign", &["00", "y"]), "bad encoded data");
        assert_eq!(text("privtotp", &["00"]), "privtotp: two arguments expected");
        assert_eq!(text("privtotp", &["000", "0"]), "bad private key");
        assert_eq!(text("privtotp", &["00", "0000000"]), "bad time argument");
        assert_eq!(text("certgen", &[]), "certgen: no longer supported, please update your sign client");
        assert_eq!(text("privileged", &["nonce"]), "privileged module is not loaded");
        assert_eq!(text("Sign", &[]), "unknown command: Sign");
        assert_eq!(command("ping", &["x"]), Ok(Command::Ping));
    }
}
