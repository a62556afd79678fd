//! A token of SoftHSM2, for this test alone: its files in a folder, keys put on it from outside, and what a client asked of
//! it, counted by OpenSC's spy.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::tools;

/// Where Debian has the module.
pub const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const SPIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/pkcs11/pkcs11-spy.so", "/usr/lib/aarch64-linux-gnu/pkcs11/pkcs11-spy.so"];
/// Label of the token.
pub const LABEL: &str = "corpus";
/// PIN of its user.
pub const PIN: &str = "1234";

/// A token in a folder of its own.
pub struct SoftHsm {
    folder: TempDir,
}

impl Default for SoftHsm {
    fn default() -> Self {
        Self::new()
    }
}

impl SoftHsm {
    /// An empty token.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("tokens")).expect("a temporary folder");
        let text = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\nslots.removable = false\n",
            folder.path().join("tokens").display()
        );
        fs::write(folder.path().join("softhsm2.conf"), text).expect("a temporary file");
        let hsm = Self { folder };
        tools::succeed(hsm.util().args([
            "--init-token",
            "--free",
            "--label",
            LABEL,
            "--so-pin",
            PIN,
            "--pin",
            PIN,
        ]));
        hsm
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Everything in it becomes this user's.
    pub fn give_to(&self, uid: u32) {
        let owner = format!("{uid}:{uid}");
        tools::succeed(Command::new("chown").arg("-R").arg(owner).arg(self.folder.path()));
    }

    /// Puts a fresh RSA-2048 key on it.
    pub fn add_rsa(&self, label: &str, id: &str) {
        let file = self.folder.path().join("key.p8");
        let mut make = Command::new("openssl");
        make.args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"]);
        if !tools::run(make.arg(&file)).status.success() {
            // OpenSSL before 3.0.8 does not know -quiet.
            let mut make = Command::new("openssl");
            make.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"]);
            tools::succeed(make.arg(&file));
        }
        let mut import = self.util();
        import
            .arg("--import")
            .arg(&file)
            .args(["--token", LABEL, "--label", label, "--id", id, "--pin", PIN]);
        tools::succeed(&mut import);
    }

    fn util(&self) -> Command {
        let mut command = Command::new("softhsm2-util");
        command.env("SOFTHSM2_CONF", self.folder.path().join("softhsm2.conf"));
        command
    }

    /// What `tokens.toml` says of it, by the name `hsm1`, with these further lines.
    #[must_use]
    pub fn entry(&self, more: &str) -> String {
        self.entry_of(Path::new(MODULE), "", more)
    }

    /// The same through the spy, whose log [`Spied::read`] reads.
    ///
    /// # Panics
    /// There is no spy.
    #[must_use]
    pub fn spied_entry(&self, more: &str) -> String {
        let spy = SPIES.into_iter().find(|path| Path::new(path).exists()).expect("opensc is installed");
        let environment =
            format!(", PKCS11SPY = \"{MODULE}\", PKCS11SPY_OUTPUT = \"{}\"", self.spy_log().display());
        self.entry_of(Path::new(spy), &environment, more)
    }

    /// The same by another module.
    #[must_use]
    pub fn entry_of(&self, module: &Path, environment: &str, more: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "[[token]]\nname = \"hsm1\"\nmodule = \"{}\"\nlabel = \"{LABEL}\"\npin_file = \"hsm1.pin\"\npaths = \
             [\"{folder}\"]\nenvironment = {{ SOFTHSM2_CONF = \"{folder}/softhsm2.conf\"{environment} }}\n{more}\n",
            module.display()
        )
    }

    /// Puts the entry and the PIN into the folder of a root key.
    ///
    /// # Panics
    /// They cannot be written.
    pub fn install(root: &Path, entry: &str, pin: &str) {
        fs::create_dir_all(root).expect("the folder of the root key");
        fs::set_permissions(root, fs::Permissions::from_mode(0o700)).expect("ours");
        for (name, text) in [("tokens.toml", entry), ("hsm1.pin", pin)] {
            let path = root.join(name);
            fs::write(&path, text).expect("a file beside the root key");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        }
    }

    fn spy_log(&self) -> PathBuf {
        self.folder.path().join("spy.log")
    }

    /// What was asked of it since the last look.
    #[must_use]
    pub fn spied(&self) -> Spied {
        let text = fs::read_to_string(self.spy_log()).unwrap_or_default();
        let _ = fs::remove_file(self.spy_log());
        Spied::read(&text)
    }
}

/// Calls that were made of a module.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spied {
    /// `C_Login`.
    pub logins: usize,
    /// `C_OpenSession`.
    pub opened: usize,
    /// Sessions open at once, at most.
    pub open_max: usize,
    /// `C_FindObjectsInit`.
    pub searches: usize,
    /// `C_SignInit`.
    pub signatures: usize,
    /// `C_GetSlotList`: how often the token was looked for.
    pub looks: usize,
    /// How the last session was closed: by count.
    pub left_open: usize,
}

impl Spied {
    /// From the log of OpenSC's spy: `12: C_OpenSession`.
    #[must_use]
    pub fn read(log: &str) -> Self {
        let mut spied = Self::default();
        for line in log.lines() {
            let Some((number, call)) = line.split_once(": ") else { continue };
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            match call.trim() {
                "C_Login" => spied.logins += 1,
                "C_OpenSession" => {
                    spied.opened += 1;
                    spied.left_open += 1;
                    spied.open_max = spied.open_max.max(spied.left_open);
                }
                "C_CloseSession" => spied.left_open = spied.left_open.saturating_sub(1),
                "C_FindObjectsInit" => spied.searches += 1,
                "C_SignInit" => spied.signatures += 1,
                "C_GetSlotList" => spied.looks += 1,
                _ => {}
            }
        }
        spied
    }
}

/// A module of this C source, in this folder.
///
/// # Panics
/// It does not compile.
#[must_use]
pub fn compile(folder: &Path, source: &str) -> PathBuf {
    let (file, module) = (folder.join("module.c"), folder.join("module.so"));
    fs::write(&file, source).expect("a temporary file");
    tools::succeed(Command::new("cc").args(["-shared", "-fPIC", "-O0", "-o"]).arg(&module).arg(&file));
    module
}
