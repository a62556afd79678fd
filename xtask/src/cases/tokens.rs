//! Cases about tokens.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::stage::{Stage, ensure, succeeded};
use crate::install::SOFTHSM;

type Outcome = std::result::Result<(), String>;

/// OpenSC's spy, which writes down each call of a module.
const SPIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/pkcs11/pkcs11-spy.so", "/usr/lib/aarch64-linux-gnu/pkcs11/pkcs11-spy.so"];

/// 300 packages, 32 at once: sessions, logins, and a wrong PIN.
pub(super) fn sessions(stage: &Stage) -> Outcome {
    for limit in [1_u32, 4, 16] {
        stage.setup()?;
        let name = format!("hsm{limit}");
        install(stage, limit, "1234")?;
        stage.ok(&["key", "import", &name, "--token", "hsm1", "--object", "signer"])?;
        let certificate = stage.run(&["key", "export", &name])?;
        succeeded(&certificate)?;
        written(&stage.file("key.asc"), &certificate.stdout)?;
        written(&stage.file("limit"), limit.to_string().as_bytes())?;
        forget(stage)?;
        stage.ok(&["sign", "--key", &name, "--jobs", "32", "-r", "p"])?;
        stage.check()?;
    }
    // The token that is there now, and a PIN that is not its own.
    install(stage, 4, "9999")?;
    forget(stage)?;
    for _ in 0..3 {
        stage.refused(
            &["sign", "--key", "hsm16", "--if-signed", "skip", "--format", "detached", "limit"],
            &["wrong PIN"],
        )?;
    }
    let spied = fs::read_to_string(stage.file("spy.log")).map_err(|error| error.to_string())?;
    let logins = spied.lines().filter(|line| line.ends_with(": C_Login")).count();
    ensure(logins == 1, format!("a wrong PIN was tried {logins} times"))
}

/// `tokens.toml` and the PIN, beside the root key.
fn install(stage: &Stage, sessions_max: u32, pin: &str) -> Outcome {
    let spy = SPIES.into_iter().find(|path| Path::new(path).exists());
    let spy = spy.ok_or("pkcs11-spy is not there: cargo xtask ci --install")?;
    let work = stage.work();
    let work = work.display();
    let entry = format!(
        "[[token]]\nname = \"hsm1\"\nmodule = \"{spy}\"\nlabel = \"corpus\"\npin_file = \"hsm1.pin\"\nsessions_max = {sessions_max}\n\
         paths = [\"{work}\"]\nenvironment = {{ SOFTHSM2_CONF = \"{work}/softhsm2.conf\", PKCS11SPY = \"{SOFTHSM}\", \
         PKCS11SPY_OUTPUT = \"{work}/spy.log\" }}\n"
    );
    let root = stage.home().join("root");
    fs::create_dir_all(&root).map_err(|error| error.to_string())?;
    private(&root, 0o700)?;
    for (name, text) in [("tokens.toml", entry.as_str()), ("hsm1.pin", pin)] {
        written(&root.join(name), text.as_bytes())?;
        private(&root.join(name), 0o600)?;
    }
    Ok(())
}

fn written(path: &Path, bytes: &[u8]) -> Outcome {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn private(path: &Path, mode: u32) -> Outcome {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| error.to_string())
}

/// What was spied so far is of another run.
fn forget(stage: &Stage) -> Outcome {
    match fs::remove_file(stage.file("spy.log")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}
