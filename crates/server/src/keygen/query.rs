//! What a request for a key says: the JSON of copr-keygen, read into a key to be made. What would go into a user id, and
//! from there into the eyes of people and the parsers of other programs, is checked character by character.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use sealwright_crypto::usage::Usage;
use sealwright_proto::convert::keys::CreateKey;
use sealwright_proto::limits::VALIDITY_S_MAX;
use sealwright_proto::names::KeyName;
use sealwright_proto::v1::CreateKeyRequest;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Bytes of `name_real` and of `name_comment`.
const TEXT_BYTES_MAX: usize = 255;

/// Of requests that name none, as copr-keygen has it.
const EXPIRE_DEFAULT: &str = "5y";

/// Lengths of keys that can be asked for.
const KEY_LENGTHS: [u64; 3] = [2048, 3072, 4096];

/// Why a request is refused; all of these are the client's to mend. None repeats what the client sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Bad {
    /// Its content type is that of a form.
    #[error("Failed to parse request body: a form is not taken, send JSON")]
    Form,
    /// Another charset than those that are known.
    #[error("Failed to parse request body: the charset is none of utf-8, us-ascii, iso-8859-1")]
    Charset,
    /// Bytes that are no text in its charset.
    #[error("Failed to parse request body: it is no text in its charset")]
    NotText,
    /// Text that is no JSON.
    #[error("Failed to parse request body: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON that is no object.
    #[error("Failed to parse request body: it is no JSON object")]
    NotAnObject,
    /// A field that must be there is not.
    #[error("Request query missing required parameter `{0}`")]
    Missing(&'static str),
    /// A field that cannot be honoured.
    #[error("{field} {what}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// What keys are like that programs ask for, where their requests do not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bits of those whose request names none.
    pub key_length: u32,
    /// What obs-sign's protocol may do with them.
    pub obs_digest: ObsDigest,
    /// Whether that is the primary key, which can certify, instead of a subkey that cannot.
    pub obs_digest_on_primary: bool,
}

/// Whether keys are sealed for digests that come over obs-sign's protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ObsDigest {
    /// They are not.
    #[default]
    None,
    /// For SHA-2.
    Sha2,
    /// For SHA-1 too.
    Sha1,
}

impl Shape {
    fn usages(&self) -> impl Iterator<Item = Usage> {
        let usages: &[Usage] = match self.obs_digest {
            ObsDigest::None => &[Usage::OpenPgp],
            ObsDigest::Sha2 => &[Usage::OpenPgp, Usage::ObsDigest],
            ObsDigest::Sha1 => &[Usage::OpenPgp, Usage::ObsDigest, Usage::ObsDigestSha1],
        };
        usages.iter().copied()
    }
}

/// A request of which the name is known, and what is necessary is there.
pub struct Query {
    name: KeyName,
    fields: Map<String, Value>,
}

impl Query {
    /// # Errors
    /// No JSON object, no `name_real`, no `name_email`, or one by which no key can be named.
    pub fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Self, Bad> {
        if is_form(headers) {
            return Err(Bad::Form);
        }
        let Value::Object(fields) = serde_json::from_str(&text(headers, body)?)? else {
            return Err(Bad::NotAnObject);
        };
        for field in ["name_real", "name_email"] {
            if !fields.contains_key(field) {
                return Err(Bad::Missing(field));
            }
        }
        let bad = |what| Bad::Field { field: "name_email", what };
        let email = fields.get("name_email").and_then(Value::as_str).ok_or_else(|| bad("is no text"))?;
        if !is_project(email) {
            return Err(bad("is not like owner#project@domain"));
        }
        let name = KeyName::parse(email);
        let name =
            name.map_err(|_| bad("cannot be the name of a key: at most 255 letters, digits and @#._-"))?;
        Ok(Self { name, fields })
    }

    /// For a project of which nothing is known but the name of its key: `owner#project@domain`, called `owner_project` as
    /// Copr calls it, with copr-keygen's period.
    ///
    /// # Errors
    /// The name is not like that.
    pub fn of_project(name: &KeyName) -> Result<Self, Bad> {
        let project = name.as_str().rsplit_once('@').filter(|_| is_project(name.as_str()));
        let (project, _) =
            project.ok_or(Bad::Field { field: "the user", what: "is not like owner#project@domain" })?;
        let name_real = Value::String(project.replace('#', "_"));
        Ok(Self { name: name.clone(), fields: Map::from_iter([("name_real".to_owned(), name_real)]) })
    }

    /// `name_email`, the key's name.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// The key that is asked for, as the operator wants keys to be.
    ///
    /// # Errors
    /// A field that cannot be honoured: it is named.
    pub fn create(&self, shape: &Shape) -> Result<CreateKey, Bad> {
        let bits = self.key_length(shape.key_length)?;
        let valid_for_s = self.valid_for_s()?;
        let user_id = self.user_id()?;
        let wire = CreateKeyRequest {
            name: self.name.as_str().to_owned(),
            algorithm: format!("rsa{bits}"),
            user_id,
            valid_for_s,
            usages: shape.usages().map(|usage| usage.id().into()).collect(),
            signing_subkey: shape.obs_digest != ObsDigest::None && !shape.obs_digest_on_primary,
            bare_digests_on_primary: shape.obs_digest_on_primary,
            ..CreateKeyRequest::default()
        };
        CreateKey::parse(wire)
            .map_err(|_| Bad::Field { field: "the request", what: "asks for no possible key" })
    }

    /// `name_real (name_comment) <name_email>`; without a comment, nothing stands for it.
    fn user_id(&self) -> Result<String, Bad> {
        let real = self.text("name_real")?.ok_or(Bad::Field { field: "name_real", what: "is empty" })?;
        let email = &self.name;
        match self.text("name_comment")? {
            Some(comment) if comment.contains(['(', ')']) => {
                Err(Bad::Field { field: "name_comment", what: "has a parenthesis in it" })
            }
            Some(comment) => Ok(format!("{real} ({comment}) <{email}>")),
            None => Ok(format!("{real} <{email}>")),
        }
    }

    /// A text that may stand in a user id, without the blanks around it; `None`: nothing.
    fn text(&self, field: &'static str) -> Result<Option<&str>, Bad> {
        let bad = |what| Bad::Field { field, what };
        let text = match self.fields.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text,
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(bad("is no text"));
            }
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(bad("has more than 255 bytes"));
        }
        if text.chars().any(is_unsafe) {
            return Err(bad("has a character in it that no user id may have"));
        }
        Ok(Some(text.trim()).filter(|text| !text.is_empty()))
    }

    fn key_length(&self, default: u32) -> Result<u64, Bad> {
        let bad = || Bad::Field { field: "key_length", what: "is none of 2048, 3072 and 4096" };
        let bits = match self.fields.get("key_length") {
            None | Some(Value::Null) => 0,
            Some(Value::Number(number)) => number.as_u64().ok_or_else(bad)?,
            Some(Value::String(text)) if text.is_empty() => 0,
            Some(Value::String(text)) => count(text).ok_or_else(bad)?,
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => return Err(bad()),
        };
        match bits {
            0 => Ok(default.into()),
            bits if KEY_LENGTHS.contains(&bits) => Ok(bits),
            _ => Err(bad()),
        }
    }

    /// `None`: it does not expire.
    fn valid_for_s(&self) -> Result<Option<u64>, Bad> {
        let what = "is no period as gpg has it, of at most 136 years: 5y, 10m, 8w, 30d, 30, seconds=3600, 0";
        let bad = || Bad::Field { field: "expire", what };
        match self.fields.get("expire") {
            None => period(EXPIRE_DEFAULT).ok_or_else(bad),
            Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => period(text).ok_or_else(bad),
            Some(Value::Number(days)) => {
                let days = days.as_u64().ok_or_else(bad)?;
                seconds(days, DAY_S).ok_or_else(bad)
            }
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => Err(bad()),
        }
    }
}

const DAY_S: u64 = 86_400;

/// A period as gpg has it (its months have 30 days, its years 365), but for dates. The inner `None`: no expiry.
fn period(text: &str) -> Option<Option<u64>> {
    if matches!(text, "" | "none" | "never") {
        return Some(None);
    }
    if let Some(text) = text.strip_prefix("seconds=") {
        return seconds(count(text)?, 1);
    }
    let units = [("d", 1_u64), ("w", 7), ("m", 30), ("y", 365)];
    let unit = units.into_iter().find_map(|(unit, days)| Some((text.strip_suffix(unit)?, days)));
    let (number, days) = unit.unwrap_or((text, 1));
    seconds(count(number)?, days.checked_mul(DAY_S)?)
}

fn seconds(count: u64, of_one: u64) -> Option<Option<u64>> {
    match count.checked_mul(of_one)? {
        0 => Some(None),
        seconds if seconds <= VALIDITY_S_MAX => Some(Some(seconds)),
        _ => None,
    }
}

/// Decimal digits, and nothing else.
fn count(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// What a browser or a plain curl sends: copr-keygen sees an empty body then.
fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(kind.as_str(), "application/x-www-form-urlencoded" | "multipart/form-data")
}

/// The body in the charset that the header `charset` names.
fn text(headers: &HeaderMap, body: &[u8]) -> Result<String, Bad> {
    let charset = headers.get("charset").map_or(Ok("utf-8"), http::HeaderValue::to_str);
    let charset = charset.map_err(|_| Bad::Charset)?.trim().to_ascii_lowercase().replace('_', "-");
    match charset.as_str() {
        "utf-8" | "utf8" => String::from_utf8(body.to_vec()).map_err(|_| Bad::NotText),
        "us-ascii" | "ascii" if body.is_ascii() => String::from_utf8(body.to_vec()).map_err(|_| Bad::NotText),
        "us-ascii" | "ascii" => Err(Bad::NotText),
        "iso-8859-1" | "iso8859-1" | "latin-1" | "latin1" => {
            Ok(body.iter().copied().map(char::from).collect())
        }
        _ => Err(Bad::Charset),
    }
}

/// copr-keygen's rule, of ASCII alone: `owner#project@domain`, perhaps with an `@` of a group before it.
fn is_project(email: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let Some((owner, rest)) = email.trim_start_matches('@').split_once('#') else { return false };
    !owner.is_empty()
        && owner.bytes().all(is_word)
        && rest.bytes().all(|byte| is_word(byte) || byte == b'@')
        && rest.bytes().filter(|byte| *byte == b'@').count() == 1
}

/// What would end a line, open or close an address, or make a text look like another.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '<' | '>'
                | '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{fdd0}'..='\u{fdef}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{ffff}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests;
