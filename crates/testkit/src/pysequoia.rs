//! Sequoia by its binding for Python: the verifier of OpenPGP version 6 (RFC 9580). gpg 2.2 and the sq of Debian 12
//! read version 4 alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::tools;

/// What it says of a certificate.
#[derive(Debug)]
pub struct Certificate {
    /// Lower-case hexadecimal.
    pub fingerprint: String,
    /// Whether a revocation by its own key counts.
    pub is_revoked: bool,
    /// End of validity, Unix seconds.
    pub expires: Option<i64>,
    /// Valid user ids.
    pub user_ids: Vec<String>,
}

/// A signature that it accepts.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Fingerprint of the certificate.
    pub certificate: String,
    /// Fingerprint of the key that signed.
    pub signing_key: String,
    /// Version of the packet.
    pub version: u64,
    /// `SHA256`.
    pub hash: String,
    /// `Ed25519`.
    pub key_algorithm: String,
}

/// Reads one certificate.
///
/// # Panics
/// It does not accept it.
#[must_use]
pub fn certificate(file: &Path) -> Certificate {
    const SCRIPT: &str = r#"
import json, sys, pysequoia
cert = pysequoia.Cert.from_file(sys.argv[1])
expires = cert.expiration and int(cert.expiration.timestamp())
print(json.dumps({"fingerprint": cert.fingerprint, "revoked": cert.is_revoked, "expires": expires,
                  "user_ids": [str(user) for user in cert.user_ids]}))
"#;
    let said = tools::succeed(python().args(["-c", SCRIPT]).arg(file));
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    let user_ids = said["user_ids"].as_array().expect("a list").iter();
    Certificate {
        fingerprint: said["fingerprint"].as_str().expect("a text").to_owned(),
        is_revoked: said["revoked"].as_bool().expect("yes or no"),
        expires: said["expires"].as_i64(),
        user_ids: user_ids.map(|user| user.as_str().expect("a text").to_owned()).collect(),
    }
}

/// Verifies a detached signature (armored or not) of `data`; the reason if it is not accepted.
///
/// # Errors
/// What it says.
///
/// # Panics
/// It cannot read a file.
pub fn verify(certificate: &Path, signature: &Path, data: &Path) -> Result<Accepted, String> {
    const SCRIPT: &str = r#"
import json, sys, pysequoia
cert = pysequoia.Cert.from_file(sys.argv[1])
signature = pysequoia.Sig.from_file(sys.argv[2])
try:
    result = pysequoia.verify(file=sys.argv[3], store=lambda ids: [cert], signature=signature)
except RuntimeError as error:
    print(json.dumps({"refused": str(error).splitlines()[0]}))
    sys.exit()
[valid] = result.valid_sigs
print(json.dumps({"certificate": valid.certificate, "signing_key": valid.signing_key,
                  "version": signature.version, "hash": str(signature.hash_algorithm),
                  "key_algorithm": str(signature.key_algorithm)}))
"#;
    let said = tools::succeed(python().args(["-c", SCRIPT]).args([certificate, signature, data]));
    let said: Value = serde_json::from_slice(&said).expect("JSON");
    if let Some(reason) = said["refused"].as_str() {
        return Err(reason.to_owned());
    }
    let text = |name: &str| {
        let text = said[name].as_str().expect("a text");
        text.rsplit_once('.').map_or(text, |(_, last)| last).to_owned()
    };
    Ok(Accepted {
        certificate: text("certificate"),
        signing_key: text("signing_key"),
        version: said["version"].as_u64().expect("a number"),
        hash: text("hash"),
        key_algorithm: text("key_algorithm"),
    })
}

/// The interpreter of the folder that `cargo xtask ci --install` makes beside what cargo builds.
fn python() -> Command {
    let program = std::env::current_exe().expect("a program has a path");
    let target = program.ancestors().nth(3).expect("tests lie in target/debug/deps");
    let python: PathBuf = target.join("pysequoia/bin/python");
    assert!(
        python.exists(),
        "this test needs pysequoia in {}: run `cargo xtask ci --install`, which installs it",
        python.display()
    );
    Command::new(python)
}
