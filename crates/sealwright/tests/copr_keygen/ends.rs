//! Ends in the middle: of the signer, of the server, by force and in peace. Each answer is whole or none, each key is whole
//! or not there, and who asks again gets it.

use std::io::Write as _;
use std::net::TcpStream;

use super::site::{COPR, Site, bytes_of, email, project, read_answer};

const NAMES: usize = 24;

/// A request for each name, on its way.
fn ask_all(site: &Site) -> Vec<TcpStream> {
    let ask = |number: usize| {
        let mut stream = site.connect(COPR);
        let query = project("farm", &number.to_string()).to_string();
        stream.write_all(&bytes_of("POST", "/gen_key", &[], query.as_bytes())).unwrap();
        stream
    };
    (0..NAMES).map(ask).collect()
}

/// Statuses; 0: none.
fn statuses(streams: Vec<TcpStream>) -> Vec<u16> {
    let status = |mut stream| read_answer(&mut stream).map_or(0, |answer| answer.status);
    streams.into_iter().map(status).collect()
}

/// Every name can be had, and every key can be shown, exported and is told only once.
fn is_whole(site: &Site, told: &[u16]) {
    let before: Vec<bool> = {
        let keys = site.keys();
        (0..NAMES)
            .map(|number| {
                keys.iter().any(|key| key.starts_with(&format!("{}|", email("farm", &number.to_string()))))
            })
            .collect()
    };
    for (number, (told, was_there)) in told.iter().zip(before).enumerate() {
        // What was said to be made is there.
        assert!(was_there || *told != 201, "{number}");
        let status = site.gen_key(&project("farm", &number.to_string())).status;
        // One that was still being made when its request was answered is found too.
        assert!(status == 200 || (status == 201 && !was_there), "{number} {status}");
        site.server.ok(&["key", "show", &email("farm", &number.to_string())]);
    }
    let keys = site.keys();
    assert_eq!(keys.len(), NAMES);
    let file = site.server.files("signed", 1).remove(0);
    for number in [0, NAMES - 1] {
        let name = email("farm", &number.to_string());
        site.server.ok(&["sign", "--force", "--format", "detached", "--key", &name, &file]);
    }
}

#[test]
fn a_signer_that_is_killed_in_the_middle_costs_nobody_a_key() {
    let site = Site::start();
    let waiting = ask_all(&site);
    site.server.until("the first key", || !site.keys().is_empty());
    assert!(site.server.signal(site.server.child("signer"), "KILL"));
    let told = statuses(waiting);
    assert!(told.iter().all(|status| [201, 503].contains(status)), "{told:?}");
    is_whole(&site, &told);
}

#[test]
fn a_server_that_is_killed_in_the_middle_has_whole_keys_when_it_is_back() {
    let mut site = Site::start();
    let waiting = ask_all(&site);
    site.server.until("the first key", || !site.keys().is_empty());
    for process in [site.server.child("front"), site.server.child("signer"), site.server.supervisor()] {
        site.server.signal(process, "KILL");
    }
    let told = statuses(waiting);
    assert!(told.iter().all(|status| [0, 201].contains(status)), "{told:?}");
    site.server.ended();
    site.server.start();
    is_whole(&site, &told);
}

#[test]
fn a_server_that_is_to_end_answers_everybody_and_begins_no_key() {
    let mut site = Site::start();
    let waiting = ask_all(&site);
    site.server.until("the first key", || !site.keys().is_empty());
    site.server.signal(site.server.supervisor(), "TERM");
    let told = statuses(waiting);
    assert!(told.iter().all(|status| [201, 503].contains(status)), "{told:?}");
    assert!(site.server.ended().success(), "{}", site.server.log());
    let made = told.iter().filter(|status| **status == 201).count();
    assert_eq!(site.keys().len(), made);
    assert!(made < NAMES, "all keys were made before the end: nothing is shown");
    site.server.start();
    is_whole(&site, &told);
}
