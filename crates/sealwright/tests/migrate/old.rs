//! An old signing service: a home of GnuPG and a folder of passphrase files, as copr-keygen leaves them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sealwright_testkit::tools;
use tempfile::TempDir;

/// As copr-keygen asks for: a primary key that may do everything, and no subkey.
pub(crate) const RSA: &str = "Key-Type: RSA\nKey-Length: 2048\n";

pub(crate) struct Old {
    folder: TempDir,
}

/// The address of a user.
pub(crate) fn named(user: &str) -> String {
    if user.contains('@') && !user.starts_with('@') {
        user.to_owned()
    } else {
        format!("{user}@copr.example.org")
    }
}

impl Old {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["gnupg", "phrases"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("a temporary folder");
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("ours");
        }
        Self { folder }
    }

    pub(crate) fn text(&self) -> &str {
        self.folder.path().to_str().expect("text")
    }

    pub(crate) fn gnupg(&self) -> PathBuf {
        self.folder.path().join("gnupg")
    }

    pub(crate) fn phrases(&self) -> PathBuf {
        self.folder.path().join("phrases")
    }

    fn gpg(&self) -> Command {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.gnupg()).args(["--batch", "--quiet", "--no-auto-check-trustdb"]);
        command
    }

    /// A key as copr-keygen makes it, with its passphrase file; its fingerprint.
    pub(crate) fn copr_key(&self, user: &str) -> String {
        let fingerprint = self.key(RSA, user, "%no-protection\nExpire-Date: 5y\n");
        self.phrase(user, "1\n");
        fingerprint
    }

    /// A key without a passphrase file; its fingerprint.
    pub(crate) fn key(&self, kind: &str, user: &str, more: &str) -> String {
        let wanted = self.folder.path().join("wanted");
        let text = format!("{kind}Name-Real: o_p\nName-Comment: None\nName-Email: {}\n{more}", named(user));
        fs::write(&wanted, text).expect("a temporary file");
        tools::succeed(self.gpg().args(["--pinentry-mode", "loopback", "--gen-key"]).arg(&wanted));
        let user = format!("<{}>", named(user));
        let listed = tools::succeed(self.gpg().args(["--with-colons", "--list-secret-keys"]).arg(user));
        let listed = String::from_utf8(listed).expect("text");
        let line = listed.lines().find(|line| line.starts_with("fpr:")).expect("a fingerprint");
        line.split(':').nth(9).expect("a fingerprint").to_lowercase()
    }

    pub(crate) fn phrase(&self, user: &str, text: &str) {
        fs::write(self.phrases().join(named(user)), text).expect("a temporary file");
    }

    /// What a disk that fails does.
    pub(crate) fn break_secret(&self, fingerprint: &str) {
        let listed =
            tools::succeed(self.gpg().args(["--with-colons", "--list-secret-keys"]).arg(fingerprint));
        let listed = String::from_utf8(listed).expect("text");
        let line = listed.lines().find(|line| line.starts_with("grp:")).expect("a keygrip");
        let grip = line.split(':').nth(9).expect("a keygrip");
        fs::write(self.gnupg().join(format!("private-keys-v1.d/{grip}.key")), "nothing\n").expect("ours");
    }

    /// The public key that the old service gives out, in a file.
    pub(crate) fn public(&self, user: &str) -> PathBuf {
        let file = self.folder.path().join("public.asc");
        let user = format!("<{}>", named(user));
        fs::write(&file, tools::succeed(self.gpg().args(["--armor", "--export"]).arg(user))).expect("ours");
        file
    }

    /// The secret key, in a file.
    pub(crate) fn secret(&self, user: &str, folder: &Path) -> PathBuf {
        let file = folder.join("secret");
        let user = format!("<{}>", named(user));
        let secret = tools::succeed(
            self.gpg().args(["--pinentry-mode", "loopback", "--export-secret-keys"]).arg(user),
        );
        fs::write(&file, secret).expect("ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
        file
    }

    pub(crate) fn has_agent(&self) -> bool {
        let mut command = Command::new("gpg-connect-agent");
        command.arg("--homedir").arg(self.gnupg()).args(["--no-autostart", "GETINFO pid", "/bye"]);
        tools::text(&tools::run(&mut command)).lines().any(|line| line.starts_with("D "))
    }

    pub(crate) fn end_agent(&self) {
        tools::succeed(
            Command::new("gpgconf").arg("--homedir").arg(self.gnupg()).args(["--kill", "gpg-agent"]),
        );
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        // It would live on until its socket is gone.
        let _ =
            Command::new("gpgconf").arg("--homedir").arg(self.gnupg()).args(["--kill", "gpg-agent"]).output();
    }
}
