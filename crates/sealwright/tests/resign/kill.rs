//! Signals and kills: nothing is lost, nothing is signed twice. `SEALWRIGHT_CAMPAIGN_PACKAGES` sets how many packages are in
//! the tree that is killed over and over; `cargo xtask soak --campaign` sets it to 20,000.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sealwright_testkit::fixtures;
use sealwright_testkit::tools;

use crate::farm::{Farm, Judge, OLD, PACKAGE, all_signed};

const PACKAGES: usize = 400;
const KILLS: usize = 10;
/// Packages in one directory of the tree.
const DIRECTORY: usize = 500;

#[test]
fn a_signal_pauses_it_with_the_command_that_goes_on_and_nothing_is_signed_twice() {
    let farm = Farm::new();
    let packages = farm.fill("a", 60);
    farm.sign(OLD, &farm.repo());
    let before = farm.home.log_size();
    for name in ["INT", "TERM"] {
        let log = farm.home.log_size();
        let mut command = farm.command(&["--from", OLD.name, "--rate", "20"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(|| farm.home.log_size() > log);
        tools::succeed(Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()));
        let output = child.wait_with_output().unwrap();
        let said = tools::text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("Go on: sealwright resign --key ed25519 --from rsa2048 --rate 20 repo"),
            "{said}"
        );
        assert!(!said.contains("failed"), "{said}");
    }
    let ran = farm.resign_ok(&["--from", OLD.name]);
    assert!(ran.stderr.contains("Going on with the campaign of"), "{}", ran.stderr);
    assert_eq!(farm.home.log_size(), before + 60);
    let judge = Judge::new();
    packages.iter().for_each(|path| judge.is_new(path));
}

#[test]
fn killed_ten_times_at_random_it_finishes_and_the_log_has_one_entry_for_each_package() {
    killed_again_and_again(&["--in-place"], |farm| farm.repo());
}

#[test]
fn killed_ten_times_at_random_it_builds_the_second_tree_and_the_log_has_one_entry_for_each_package() {
    killed_again_and_again(&["--output", "new"], |farm| farm.home.work().join("new"));
}

fn killed_again_and_again(how: &[&str], result: impl Fn(&Farm) -> PathBuf) {
    let count: usize = std::env::var("SEALWRIGHT_CAMPAIGN_PACKAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(PACKAGES);
    // So that no run is over before it is killed, however fast the machine is and however long a look at the log takes.
    let rate = (count / 20).to_string();
    let slowly = [how, &["--rate", &rate]].concat();
    let farm = Farm::new();
    let names = fill(&farm.repo(), count);
    let mut killed = 0;
    for _ in 0..KILLS {
        let log = farm.home.log_size();
        let mut command = farm.command(&slowly);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_over = progress(&farm, &mut child, log, count / (4 * KILLS));
        // A random moment of its work.
        std::thread::sleep(Duration::from_millis(100).mul_f64(random()));
        child.kill().unwrap();
        child.wait().unwrap();
        killed += usize::from(!is_over);
    }
    let ran = farm.resign_ok(how);
    assert_eq!(killed, KILLS, "some runs ended by themselves: {}", ran.text());
    assert!(ran.stderr.contains("Going on with the campaign of"), "{}", ran.stderr);
    let log = farm.home.log_size();
    assert_eq!(log, u64::try_from(count).unwrap(), "one entry for each package");
    let packages: Vec<PathBuf> = names.iter().map(|name| result(&farm).join(name)).collect();
    all_signed(&farm.home.work(), &packages);
    let left = left_behind(&result(&farm));
    assert!(left.is_empty(), "{left:?}");
    eprintln!("{count} packages, {killed} kills, {log} log entries");
}

/// The same package under many names, in directories of some hundred.
fn fill(repo: &Path, count: usize) -> Vec<PathBuf> {
    let package = fs::read(fixtures::package(PACKAGE)).unwrap();
    (0..count)
        .map(|number| {
            let name = PathBuf::from(format!("{}/{number:05}.rpm", number / DIRECTORY));
            fs::create_dir_all(repo.join(&name).parent().unwrap()).unwrap();
            fs::write(repo.join(&name), &package).unwrap();
            name
        })
        .collect()
}

/// Waits until so many more are signed; true if the run is over.
fn progress(farm: &Farm, child: &mut Child, log: u64, more: usize) -> bool {
    let target = log + u64::try_from(more).unwrap().max(1);
    let mut over = false;
    wait_for(|| {
        over = child.try_wait().unwrap().is_some();
        over || farm.home.log_size() >= target
    });
    over
}

fn wait_for(mut happens: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Temporaries.
fn left_behind(folder: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            left.extend(left_behind(&path));
        } else if path.file_name().unwrap().to_string_lossy().starts_with(".sealwright-") {
            left.push(path);
        }
    }
    left
}

/// Between 0 and 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}
