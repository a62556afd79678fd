//! The commands of the README, and a place to run them in as they stand: /etc, /home, /var/lib, /run and /usr/local/bin
//! of this machine seem to be written, and are not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sealwright_testkit::{fixtures, tools};
use tempfile::TempDir;

const README: &str = include_str!("../../../../README.md");
const SECTION: &str = "## Sign for others, over the network\n";
/// Directories that the commands write into.
const WRITTEN: &[&str] = &["/etc", "/home", "/var/lib"];

/// Those for root, and those for the user `alice`: the first and the second indented block of the section.
pub(crate) fn commands() -> (Vec<String>, Vec<String>) {
    let (_, section) = README.split_once(SECTION).expect("the README has the section");
    let section = section.split("\n## ").next().unwrap();
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        let Some(command) = line.strip_prefix("    ") else {
            inside = inside && line.is_empty();
            continue;
        };
        if !inside {
            blocks.push(Vec::new());
        }
        inside = true;
        blocks.last_mut().unwrap().push(command.to_owned());
    }
    (blocks[0].clone(), blocks[1].clone())
}

/// A machine that is only seemingly this one.
pub(crate) struct Isolated(TempDir);

impl Isolated {
    /// None without the right to make one.
    pub(crate) fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let here = Self(folder);
        for part in WRITTEN {
            let name = part.replace('/', "_");
            fs::create_dir_all(here.path(&format!("{name}.upper"))).unwrap();
            fs::create_dir_all(here.path(&format!("{name}.work"))).unwrap();
        }
        let probe = format!(
            "set -e\n{}\nuseradd --version >/dev/null && setpriv --version >/dev/null",
            here.mounts()
        );
        let may = here.unshare(&probe).status.success();
        may.then_some(here)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mounts(&self) -> String {
        let overlay = |part: &&str| {
            let base = self.path(&part.replace('/', "_"));
            let base = base.display();
            format!(
                "mount -t overlay overlay -o lowerdir={part},upperdir={base}.upper,workdir={base}.work {part}\n"
            )
        };
        let mut mounts: String = WRITTEN.iter().map(overlay).collect();
        mounts.push_str(
            "mount -t tmpfs -o mode=755 tmpfs /run\nmount -t tmpfs -o mode=755 tmpfs /usr/local/bin\n",
        );
        mounts.push_str("mount -t tmpfs -o mode=1777 tmpfs /srv\n");
        mounts
    }

    fn unshare(&self, script: &str) -> std::process::Output {
        tools::run(
            Command::new("unshare")
                .args([
                    "--mount",
                    "--pid",
                    "--net",
                    "--uts",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "sh",
                    "-c",
                ])
                .arg(script)
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
                .env("HOME", "/root"),
        )
    }

    /// Runs the commands of root, then those of alice in a folder with one package; returns what they printed.
    pub(crate) fn run(&self, root: &[String], user: &[String]) -> String {
        let program = env!("CARGO_BIN_EXE_sealwright");
        let package = fixtures::package("gen_tiny-reserved4096.rpm");
        fs::write(self.path("root.sh"), format!("set -e\n{}\n", root.join("\n"))).unwrap();
        fs::write(self.path("user.sh"), format!("set -e\ncd ~/packages\n{}\n", user.join("\n"))).unwrap();
        let here = self.0.path().display();
        let script = format!(
            "set -e
hostname signhost
ip link set lo up 2>/dev/null || ifconfig lo up
{mounts}
echo '127.0.0.1 signhost localhost' > /etc/hosts
touch /usr/local/bin/sealwright
mount --bind {program} /usr/local/bin/sealwright
rm -rf /etc/sealwright /var/lib/sealwright
useradd --create-home alice
install -d -o alice /home/alice/packages
install -o alice -m 644 {package} /home/alice/packages/
cp {here}/user.sh /srv/user.sh
chmod 755 /srv/user.sh
sh {here}/root.sh > /srv/root.log 2>&1 || {{ cat /srv/root.log; exit 1; }}
setpriv --reuid alice --regid alice --init-groups --reset-env sh /srv/user.sh 2>&1 || {{ cat /srv/root.log; exit 1; }}
",
            mounts = self.mounts(),
            package = package.display(),
        );
        let output = self.unshare(&script);
        let said = tools::text(&output);
        assert!(output.status.success(), "{said}");
        said
    }
}
