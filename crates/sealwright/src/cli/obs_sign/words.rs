//! The words of obs-sign's `sign`: each option is a word of its own, they end at the first word that is none, and `-h` is the
//! hash. So nothing of this is clap's.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use sealwright_crypto::algorithm::HashAlgorithm;

use crate::failure::Failure;

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// None: by the name of each file.
    pub(super) mode: Option<Mode>,
    /// `-u`.
    pub(super) user: Option<String>,
    /// `-h`.
    pub(super) hash: Option<Hash>,
    /// `-T`.
    pub(super) time: Option<Time>,
    /// `-A`.
    pub(super) algorithm: Option<String>,
    /// `-S`.
    pub(super) checksums: Option<PathBuf>,
    /// `--config`.
    pub(super) config: Option<PathBuf>,
    /// `-v`.
    pub(super) verbose: bool,
    /// `-3`, and no `-4` after it.
    pub(super) version_3: bool,
    /// `--noheaderonly`.
    pub(super) with_payload: bool,
    /// `--keep-signed`.
    pub(super) keep_signed: bool,
    /// `--delsign`.
    pub(super) strip: bool,
    /// `-P`.
    pub(super) project_key: Option<PathBuf>,
    /// `--public-key`: that of `-P`.
    pub(super) public_key: Option<PathBuf>,
    /// `--bulk-cpio`.
    pub(super) bulk: bool,
    /// None: standard input. With `-g`, `-x` and `-C` what they are about.
    pub(super) files: Vec<PathBuf>,
}

/// What to do. The last one counts, as in obs-sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// `--help`.
    Help,
    /// `-t`.
    Ping,
    /// `-p`.
    PublicKey,
    /// `-k`.
    ShortKeyId,
    /// `--full-keyid`.
    KeyId,
    /// `--fingerprint`.
    Fingerprint,
    /// `-O`.
    Raw,
    /// `-g`.
    MakeKey,
    /// `-x`.
    Extend,
    /// `-C`.
    Certify,
    /// One of the ways to sign.
    Sign(How),
}

/// Ways to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `-c`.
    Clear,
    /// `-d`.
    Detached,
    /// `-D`.
    DetachedBinary,
    /// `-r`.
    Rpm,
}

/// `-h`, and `hash:` in sign.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// Not made any more: SHA-256 in its place, and a word about it.
    Sha1,
    /// What is used.
    Used(HashAlgorithm),
}

/// `-T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Unix seconds.
    Seconds(u32),
    /// `mtime` or `buildtime`.
    OfFile,
}

const NO_CMS: &str =
    "CMS signatures, and what is made of them, are not made here: use obs-sign's own sign for them.";

/// Options of obs-sign that are not served, and what to use.
const ELSEWHERE: &[(&str, &str)] = &[
    ("-a", "AppImages are not signed here: use obs-sign's own sign for them."),
    ("--appimage", "AppImages are not signed here: use obs-sign's own sign for them."),
    ("--pkcs1pss", NO_CMS),
    ("--cert", NO_CMS),
    ("--othercerts", NO_CMS),
    ("--appx", NO_CMS),
    ("--appxdetached", NO_CMS),
    ("--cmssign", NO_CMS),
    ("--pesign", NO_CMS),
    ("--kosign", NO_CMS),
    ("--cms-nocerts", NO_CMS),
    ("--cms-keyid", NO_CMS),
    ("--totp", "One-time passwords are no business of a signing server."),
    ("--hashfile", "Use sha256sum, sha512sum or sha1sum."),
    ("--test-sign", "Run the server, and name it in sign.conf."),
];

impl Words {
    /// # Errors
    /// An option that nobody knows or that is not served, or a value that is missing or wrong.
    pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, Failure> {
        let mut words = words.into_iter();
        let mut parsed = Self::default();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            if !word.as_encoded_bytes().starts_with(b"-") {
                parsed.files.push(word.into());
                break;
            }
            parsed.option(&word, &mut words)?;
        }
        parsed.files.extend(words.map(PathBuf::from));
        parsed.fits()?;
        Ok(parsed)
    }

    /// Whether it makes OpenPGP signatures of files.
    pub(super) const fn signs(&self) -> bool {
        matches!(self.mode, Some(Mode::Sign(_)) | None)
    }

    /// Whether it signs something whose hash the caller chooses.
    pub(super) const fn hashes(&self) -> bool {
        self.signs() || matches!(self.mode, Some(Mode::Raw | Mode::Certify))
    }

    fn option(&mut self, word: &OsStr, rest: &mut impl Iterator<Item = OsString>) -> Result<(), Failure> {
        let name = word.to_string_lossy();
        let value = |rest: &mut dyn Iterator<Item = OsString>| {
            rest.next().ok_or_else(|| usage(format!("{name} needs a value")))
        };
        let mut text = || value(rest).map(|value| value.to_string_lossy().into_owned());
        match name.as_ref() {
            "-u" => self.user = Some(user(&text()?)?),
            "-h" => self.hash = Some(Hash::parse(&text()?)?),
            "-T" => self.time = Some(Time::parse(&text()?)?),
            "-A" => self.algorithm = Some(algorithm(&text()?)?),
            "-S" => self.checksums = Some(value(rest)?.into()),
            "--config" => self.config = Some(value(rest)?.into()),
            "-P" => self.project_key = Some(value(rest)?.into()),
            "--public-key" => self.public_key = Some(value(rest)?.into()),
            "--bulk-cpio" => self.bulk = true,
            "-v" => self.verbose = true,
            "-3" => self.version_3 = true,
            "-4" => self.version_3 = false,
            "--noheaderonly" => self.with_payload = true,
            "--keep-signed" => self.keep_signed = true,
            "--delsign" => self.strip = true,
            other => match mode(other) {
                Some(mode) => self.mode = Some(mode),
                None => return Err(elsewhere(other)),
            },
        }
        Ok(())
    }

    /// What belongs together, and what does not.
    fn fits(&self) -> Result<(), Failure> {
        let has_files = !self.files.is_empty();
        let refuse = |usage_text: &str| Err(usage(format!("usage: sign {usage_text}")));
        match self.mode {
            Some(Mode::PublicKey) if has_files => refuse("-p [-u user]"),
            Some(Mode::ShortKeyId | Mode::KeyId) if has_files => refuse("-k [-u user]"),
            Some(Mode::Fingerprint) if has_files => refuse("--fingerprint [-u user]"),
            Some(Mode::Ping) if has_files => refuse("-t"),
            Some(Mode::MakeKey) if self.files.len() != 4 => refuse("-g <type> <expire> <name> <email>"),
            Some(Mode::Extend) if self.files.len() != 2 => refuse("-x <expire> <pubkey>"),
            Some(Mode::Certify) if self.files.len() != 1 => refuse("-C <pubkey>"),
            Some(Mode::Raw) if self.strip => Err(usage("--delsign is only implemented for rpms".to_owned())),
            Some(_) | None if self.bulk && self.mode != Some(Mode::Raw) => {
                Err(usage("bulk-cpio is only implemented for raw openssl signing".to_owned()))
            }
            Some(Mode::Sign(How::Clear | How::Detached | How::DetachedBinary)) if self.strip => {
                Err(usage("--delsign is only implemented for rpms".to_owned()))
            }
            None if !has_files && !self.strip => {
                Err(usage("please specify a mode for filter usage (see sign --help)".to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn mode(name: &str) -> Option<Mode> {
    Some(match name {
        "--help" => Mode::Help,
        "-t" => Mode::Ping,
        "-p" => Mode::PublicKey,
        "-k" => Mode::ShortKeyId,
        "--full-keyid" => Mode::KeyId,
        "--fingerprint" => Mode::Fingerprint,
        "-O" => Mode::Raw,
        "-g" => Mode::MakeKey,
        "-x" => Mode::Extend,
        "-C" => Mode::Certify,
        "-c" => Mode::Sign(How::Clear),
        "-d" => Mode::Sign(How::Detached),
        "-D" => Mode::Sign(How::DetachedBinary),
        "-r" => Mode::Sign(How::Rpm),
        _ => return None,
    })
}

impl Hash {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        if is("sha1") {
            Ok(Self::Sha1)
        } else if is("sha256") {
            Ok(Self::Used(HashAlgorithm::Sha256))
        } else if is("sha512") {
            Ok(Self::Used(HashAlgorithm::Sha512))
        } else {
            Err(usage(format!("sign: unknown hash algorithm '{text}'")))
        }
    }
}

impl Time {
    fn parse(text: &str) -> Result<Self, Failure> {
        match text.parse() {
            Ok(seconds) => Ok(Self::Seconds(seconds)),
            Err(_) if matches!(text, "mtime" | "buildtime") => Ok(Self::OfFile),
            Err(_) => Err(usage(format!("illegal time argument: {text}"))),
        }
    }
}

/// Names of keys are compared as they are; whatever could not be one is not sent anywhere.
fn user(text: &str) -> Result<String, Failure> {
    if text.chars().any(char::is_control) || text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(usage("-u: the user has control characters, or is no text".to_owned()));
    }
    Ok(text.to_owned())
}

fn algorithm(text: &str) -> Result<String, Failure> {
    let name = text.to_ascii_lowercase();
    if ["dsa", "rsa", "eddsa", "ecdsa", "mldsa65", "mldsa87"].contains(&name.as_str()) {
        return Ok(name);
    }
    Err(usage(format!("sign: unknown pubkey algorithm '{text}'")))
}

fn elsewhere(name: &str) -> Failure {
    match ELSEWHERE.iter().find(|(option, _)| *option == name) {
        Some((_, instead)) => Failure::failed(format!("sign: {name} is not served here"), *instead),
        None => usage(format!("sign: unknown option '{name}'")),
    }
}

fn usage(what: String) -> Failure {
    Failure::failed(what, "See sign --help.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Words, String> {
        Words::parse(words.iter().map(OsString::from)).map_err(|failure| failure.what)
    }

    #[test]
    fn both_calls_of_copr_are_read() {
        let key = "@group#proj@copr.example.org";
        let asked = parse(&["-u", key, "-p"]).unwrap();
        assert_eq!((asked.user.as_deref(), asked.mode), (Some(key), Some(Mode::PublicKey)));
        let sign = parse(&["-4", "-h", "sha256", "-u", key, "-r", "/a b/x.rpm"]).unwrap();
        assert_eq!(sign.mode, Some(Mode::Sign(How::Rpm)));
        assert_eq!(sign.hash, Some(Hash::Used(HashAlgorithm::Sha256)));
        assert_eq!((sign.user.as_deref(), sign.version_3), (Some(key), false));
        assert_eq!(sign.files, [PathBuf::from("/a b/x.rpm")]);
    }

    #[test]
    fn options_end_at_the_first_file_and_the_last_mode_counts() {
        let words = parse(&["-d", "-c", "a", "-d", "--nothing"]).unwrap();
        assert_eq!(words.mode, Some(Mode::Sign(How::Clear)));
        assert_eq!(words.files, ["a", "-d", "--nothing"].map(PathBuf::from));
        let after = parse(&["-D", "--", "-x"]).unwrap();
        assert_eq!(after.files, [PathBuf::from("-x")]);
        assert!(parse(&["-3", "-r", "a"]).unwrap().version_3);
        assert!(!parse(&["-3", "-4", "-r", "a"]).unwrap().version_3);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_obs_signs_text() {
        for (words, text) in [
            (&["-h", "md5", "-d"][..], "sign: unknown hash algorithm 'md5'"),
            (&["-A", "x", "-d"], "sign: unknown pubkey algorithm 'x'"),
            (&["-T", "", "-d"], "illegal time argument: "),
            (&["-T", "yesterday", "-d"], "illegal time argument: yesterday"),
            (&["-T", "-1", "-d"], "illegal time argument: -1"),
            (&[], "please specify a mode for filter usage (see sign --help)"),
            (&["-p", "file"], "usage: sign -p [-u user]"),
            (&["-k", "file"], "usage: sign -k [-u user]"),
            (&["-u"], "-u needs a value"),
            (&["-u", "a\nb", "-p"], "-u: the user has control characters, or is no text"),
            (&["--nothing"], "sign: unknown option '--nothing'"),
            (&["-dv", "a"], "sign: unknown option '-dv'"),
            (&["-d", "--delsign", "a"], "--delsign is only implemented for rpms"),
            (&["-O", "--delsign", "a"], "--delsign is only implemented for rpms"),
            (&["-d", "--bulk-cpio", "a"], "bulk-cpio is only implemented for raw openssl signing"),
            (&["-g", "rsa@2048", "800", "name"], "usage: sign -g <type> <expire> <name> <email>"),
            (&["-x", "800"], "usage: sign -x <expire> <pubkey>"),
            (&["-C"], "usage: sign -C <pubkey>"),
        ] {
            assert_eq!(parse(words).unwrap_err(), text);
        }
    }

    #[test]
    fn every_option_that_is_not_served_says_what_to_use() {
        for (option, instead) in ELSEWHERE {
            let failure = Words::parse([OsString::from(option)]).unwrap_err();
            assert_eq!(failure.what, format!("sign: {option} is not served here"));
            assert_eq!(&failure.advice, instead);
        }
    }
}
