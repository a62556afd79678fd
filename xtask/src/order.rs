//! Proof that the tests of the order of effects and of the registry's laws bite: product code is changed, one step
//! dropped or two swapped, one mechanism taken away, and a test must fail. The list is `order/mutants.rs`. Long (a build
//! for each): not a part of `ci`.

mod mutants;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::error::Error;
use crate::process::{self, cargo};
use crate::{Result, process::root};
use mutants::{Mutant, Tests};

/// A checkout of the last commit that mutants are made in, and what was built of it; both stay for the next run.
const TREE: &str = "target/mutants/tree";
const BUILT: &str = "target/mutants/target";

/// The exit code of coreutils' `timeout`.
const STOPPED_BY_TIMEOUT: i32 = 124;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Instead: a fault at each single call of each way of signing; some minutes
    #[arg(long)]
    every: bool,
    /// Only mutants whose name contains one of these words
    names: Vec<String>,
}

/// What became of a mutant.
enum Fate {
    /// It does not compile: the types do not let it.
    Types,
    /// This test failed.
    Test(String),
    /// They were stopped after [`Tests::seconds_max`].
    StandsStill,
    Survived,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.every {
        let mut tests = cargo(&["test", "--locked", "--package", "sealwright", "--test", "order", "--"]);
        tests.args(["a_fault_at_any_call", "--nocapture"]);
        return process::run(tests.env("SEALWRIGHT_ORDER_EVERY", "1"));
    }
    let is_chosen = |mutant: &&Mutant| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| mutant.name.contains(name.as_str()))
    };
    let chosen: Vec<&Mutant> = mutants::all().filter(is_chosen).collect();
    let _alone = process::alone(&root().join("target/mutants"), "xtask order")?;
    let tree = Tree::of_last_commit()?;
    for mutant in &chosen {
        tree.mutated(mutant)?;
    }
    println!("xtask: the tests without a mutant");
    for tests in Tests::ALL {
        if chosen.iter().any(|mutant| mutant.tests == tests) {
            match tree.fate(tests)? {
                Fate::Survived => {}
                Fate::Types => return Err(Error::unexpected("the last commit does not compile")),
                Fate::Test(name) => return Err(Error::unexpected(format!("{name} fails without a mutant"))),
                Fate::StandsStill => return Err(Error::unexpected("tests stand still without a mutant")),
            }
        }
    }
    let mut survivors = 0_usize;
    for mutant in chosen {
        let told = match tree.judge(mutant)? {
            Fate::Types => "types".to_owned(),
            Fate::Test(name) => format!("test  {name}"),
            Fate::StandsStill => "tests that wait for ever".to_owned(),
            Fate::Survived => {
                survivors = survivors.saturating_add(1);
                "SURVIVED".to_owned()
            }
        };
        println!("{:<72} {told}", mutant.name);
    }
    match survivors {
        0 => Ok(()),
        count => Err(Error::Findings { count, what: "mutants that no test caught" }),
    }
}

struct Tree(PathBuf);

impl Tree {
    fn of_last_commit() -> Result<Self> {
        let tree = root().join(TREE);
        let git = |folder: &Path, arguments: &[&str]| {
            process::output(Command::new("git").arg("-C").arg(folder).args(arguments))
        };
        let head = git(&root(), &["rev-parse", "HEAD"])?;
        if tree.join(".git").exists() {
            git(&tree, &["checkout", "--quiet", "--force", "--detach", head.trim()])?;
        } else {
            git(&root(), &["worktree", "prune"])?;
            git(&root(), &["worktree", "add", "--quiet", "--detach", TREE, head.trim()])?;
        }
        git(&tree, &["clean", "--quiet", "--force", "-d"])?;
        Ok(Self(tree))
    }

    /// The path of the file, and its text before and after.
    fn mutated(&self, mutant: &Mutant) -> Result<(PathBuf, String, String)> {
        let path = self.0.join(mutant.file);
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        match text.matches(mutant.text).count() {
            1 => Ok((path, text.clone(), text.replacen(mutant.text, mutant.replacement, 1))),
            times => Err(Error::unexpected(format!(
                "{}: the text of the mutant \"{}\" is there {times} times, not once: xtask/src/order/mutants.rs",
                mutant.file, mutant.name
            ))),
        }
    }

    fn judge(&self, mutant: &Mutant) -> Result<Fate> {
        let (path, before, after) = self.mutated(mutant)?;
        fs::write(&path, after).map_err(Error::file(&path))?;
        let fate = self.fate(mutant.tests);
        fs::write(&path, before).map_err(Error::file(&path))?;
        fate
    }

    fn fate(&self, tests: Tests) -> Result<Fate> {
        let mut build = cargo(&["test"]);
        let built = self.cargo_test(&mut build, tests, &["--no-run"])?;
        if !built.status.success() {
            let why = String::from_utf8_lossy(&built.stderr);
            return match why.contains("could not compile") {
                true => Ok(Fate::Types),
                false => Err(Error::unexpected(format!("the tests were not built: {why}"))),
            };
        }
        let mut limited = Command::new("timeout");
        limited.args(["--kill-after=10", tests.seconds_max()]).arg(build.get_program()).arg("test");
        let output = self.cargo_test(&mut limited, tests, &[])?;
        if output.status.success() {
            return Ok(Fate::Survived);
        }
        if output.status.code() == Some(STOPPED_BY_TIMEOUT) {
            return Ok(Fate::StandsStill);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = text.lines().find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
        let why = String::from_utf8_lossy(&output.stderr);
        match failed {
            Some(name) => Ok(Fate::Test(name.to_owned())),
            None => Err(Error::unexpected(format!("no test failed, and yet `cargo test` did: {why}"))),
        }
    }

    fn cargo_test(&self, cargo: &mut Command, tests: Tests, more: &[&str]) -> Result<Output> {
        cargo.args(["--locked", "--quiet"]).args(tests.target()).args(more);
        cargo.current_dir(&self.0).env("CARGO_TARGET_DIR", root().join(BUILT));
        if !tests.filters().is_empty() {
            cargo.arg("--").args(tests.filters());
        }
        cargo.output().map_err(|source| process::start(cargo, source))
    }
}
