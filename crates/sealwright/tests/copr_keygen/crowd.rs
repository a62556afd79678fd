//! Many at once.

use std::collections::BTreeMap;
use std::fs;

use sealwright_testkit::server::Server;

use super::site::{COPR, Site, email, project};

#[test]
fn two_hundred_requests_for_twenty_names_make_twenty_keys() {
    let site = Site::start();
    let mut seen = BTreeMap::<(usize, u16), usize>::new();
    std::thread::scope(|scope| {
        let site = &site;
        let all: Vec<_> = (0..200)
            .map(|number| {
                let name = number % 20;
                scope.spawn(move || (name, site.gen_key(&project("farm", &name.to_string())).status))
            })
            .collect();
        for one in all {
            *seen.entry(one.join().unwrap()).or_default() += 1;
        }
    });
    // One of each name made it, the others found it.
    let wanted = (0..20).flat_map(|name| [((name, 200), 9), ((name, 201), 1)]);
    assert_eq!(seen, wanted.collect());
    assert_eq!(site.keys().len(), 20);
    let made = site.server.log().lines().filter(|line| line.contains("a new key")).count();
    assert_eq!(made, 20);
}

/// Threads of a process: name and nice value.
fn threads(pid: u32) -> Vec<(String, i64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |path: std::path::PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let (before, after) = stat.rsplit_once(") ")?;
        let nice = after.split(' ').nth(16)?.parse().ok()?;
        Some((before.split_once('(')?.1.to_owned(), nice))
    };
    tasks.filter_map(|task| of(task.ok()?.path())).collect()
}

fn nice_of(server: &Server, begin: &str) -> Vec<i64> {
    let all = threads(server.child("signer"));
    all.into_iter().filter(|(name, _)| name.starts_with(begin)).map(|(_, nice)| nice).collect()
}

#[test]
fn keys_are_made_by_threads_that_stand_back_for_those_that_sign() {
    let site = Site::start();
    assert_eq!(site.gen_key(&project("alice", "tools")).status, 201);
    let later = nice_of(&site.server, "signer-later-");
    assert_eq!(later.len(), std::thread::available_parallelism().unwrap().get());
    assert!(later.iter().all(|nice| *nice == 19), "{later:?}");
    let others = threads(site.server.child("signer"));
    let others: Vec<_> = others.iter().filter(|(name, _)| !name.starts_with("signer-later-")).collect();
    assert!(others.len() > later.len() && others.iter().all(|(_, nice)| *nice == 0), "{others:?}");
}

#[test]
fn signing_goes_on_while_a_farm_waits_for_its_keys() {
    let site = Site::start();
    site.server.ok(&["key", "create", "release", "--algorithm", "ed25519"]);
    let file = site.server.files("signed", 1).remove(0);
    let waiting: Vec<_> = (0..150)
        .map(|number| {
            let mut stream = site.connect(COPR);
            let query = project("farm", &number.to_string()).to_string();
            let bytes = super::site::bytes_of("POST", "/gen_key", &[], query.as_bytes());
            std::io::Write::write_all(&mut stream, &bytes).unwrap();
            stream
        })
        .collect();
    // It has begun, and is far from its end.
    site.server.until("the first key of the farm", || site.keys().len() > 1);
    site.server.ok(&["sign", "--format", "detached", "--key", "release", &file]);
    // So is what an administrator does.
    site.server.ok(&["key", "create", "nightly", "--algorithm", "ed25519"]);
    let made = site.keys().len();
    assert!(made < 152, "all keys were made before a signature: nothing is shown");
    drop(waiting);
    // Whoever went away finds them made.
    site.server.until("all keys", || site.keys().len() == 152);
    assert_eq!(site.gen_key(&project("farm", "149")).status, 200);
    assert!(site.keys().iter().any(|key| key.starts_with(&email("farm", "0"))));
}
