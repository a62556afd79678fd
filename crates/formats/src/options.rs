//! What a user can choose about signing a file: the choices of every format, and the ones a format declares.

use sealwright_crypto::algorithm::HashAlgorithm;

use crate::error::Error;

/// What to do with a file that has signatures already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfSigned {
    /// Remove them; only ours remain. A file that holds just the signature we would make is left as it is.
    #[default]
    Replace,
    /// Leave the file as it is and say so.
    Skip,
    /// Keep other keys' signatures, add ours.
    Add,
    /// An error.
    Refuse,
}

/// Whether the payload is read and compared with its digests before a header is signed that vouches for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadCheck {
    /// Only when the payload is read anyhow; the report says "payload not checked".
    #[default]
    WhenRead,
    /// Always.
    Always,
}

/// Whether a signature that is there already is made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// A file that already has exactly the signature asked for is left as it is.
    #[default]
    Skip,
    /// Sign in any case (`--force`).
    Force,
}

/// Everything that [`crate::Format::prepare`] may take into account.
#[derive(Clone, Debug)]
pub struct SignOptions {
    /// Hash algorithm of new signatures; the default is SHA-256.
    pub hash: HashAlgorithm,
    /// Signatures already there.
    pub if_signed: IfSigned,
    /// Payload digests.
    pub payload: PayloadCheck,
    /// The same signature again.
    pub repeat: Repeat,
    /// Options of single formats, each checked against its [`OptionSpec`].
    pub format: FormatOptions,
}

impl Default for SignOptions {
    fn default() -> Self {
        Self {
            hash: HashAlgorithm::Sha256,
            if_signed: IfSigned::default(),
            payload: PayloadCheck::default(),
            repeat: Repeat::default(),
            format: FormatOptions::default(),
        }
    }
}

/// An option that one format declares: the command line, the help and the man page come from it.
#[derive(Debug)]
pub struct OptionSpec {
    /// Long option without dashes: `rpm-signature`.
    pub name: &'static str,
    /// Placeholder in the help: `KIND`.
    pub value_name: &'static str,
    /// The accepted words; empty when [`Self::check`] decides.
    pub choices: &'static [&'static str],
    /// What holds when it is not given.
    pub default: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Whether a value outside `choices` is accepted.
    pub check: fn(&str) -> bool,
}

/// Values of declared options, each checked when it was set.
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    values: Vec<(&'static str, String)>,
}

impl FormatOptions {
    /// Sets a declared option.
    ///
    /// # Errors
    /// [`Error::Refused`] if the value is not one of its choices.
    pub fn set(&mut self, spec: &'static OptionSpec, value: &str) -> Result<(), Error> {
        if !spec.choices.contains(&value) && !(spec.check)(value) {
            return Err(Error::Refused {
                reason: format!("--{}: {value:?} is not accepted", spec.name),
                advice: spec.help,
            });
        }
        self.values.retain(|(name, _)| *name != spec.name);
        self.values.push((spec.name, value.to_owned()));
        Ok(())
    }

    /// The value in force.
    #[must_use]
    pub fn value<'a>(&'a self, spec: &'a OptionSpec) -> &'a str {
        self.values.iter().find(|(name, _)| *name == spec.name).map_or(spec.default, |(_, value)| value)
    }
}
