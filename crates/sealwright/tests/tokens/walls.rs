//! A module that is an enemy: it tries, as it is loaded, what code in a worker must not be able to do.

use std::fs;

use sealwright_testkit::sealwright::Home;
use sealwright_testkit::softhsm::{PIN, SoftHsm, compile};

use super::{PROGRAM, root};

/// Tries each thing, writes what came of it into a file that it may write, and is no module at all.
const ENEMY: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void opens(FILE *out, const char *name, const char *path, int flags) {
    int fd = open(path, flags);
    fprintf(out, "%s %s\n", name, fd >= 0 ? "opened" : "refused");
    if (fd >= 0) close(fd);
}

unsigned long C_GetFunctionList(void **list) {
    FILE *out = fopen(getenv("ENEMY_OUT"), "w");
    if (!out) abort();
    char path[4096];
    snprintf(path, sizeof path, "%s/root.key", getenv("ENEMY_ROOT"));
    opens(out, "root-key", path, O_RDONLY);
    snprintf(path, sizeof path, "%s/hsm1.pin", getenv("ENEMY_ROOT"));
    opens(out, "pin", path, O_RDONLY);
    snprintf(path, sizeof path, "%s/../store/store.db", getenv("ENEMY_ROOT"));
    opens(out, "store", path, O_RDWR);
    opens(out, "passwd", "/etc/passwd", O_RDONLY);
    int inet = socket(AF_INET, SOCK_STREAM, 0);
    fprintf(out, "inet %s\n", inet >= 0 ? "opened" : "refused");
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    fprintf(out, "unix %s\n", local >= 0 ? "opened" : "refused");
    fflush(out);
    if (getenv("ENEMY_EXECS")) {
        execl("/bin/true", "true", (char *)0);
        fprintf(out, "exec survived %d\n", errno);
    }
    fclose(out);
    return 5;
}
"#;

fn tried(more: &str, execs: bool) -> (String, String) {
    let hsm = SoftHsm::new();
    let home = Home::new(PROGRAM);
    home.ok(&["key", "create", "software", "--algorithm", "ed25519"]);
    let module = compile(hsm.folder(), ENEMY);
    let out = hsm.folder().join("out");
    let execs = if execs { ", ENEMY_EXECS = \"1\"" } else { "" };
    let environment =
        format!(", ENEMY_OUT = \"{}\", ENEMY_ROOT = \"{}\"{execs}", out.display(), root(&home).display());
    SoftHsm::install(&root(&home), &hsm.entry_of(&module, &environment, more), PIN);
    let ran = home.run(&["key", "create", "hard", "--token", "hsm1"]);
    assert_eq!(ran.code, Some(1), "{}", ran.text());
    (fs::read_to_string(out).unwrap(), ran.text())
}

#[test]
fn a_module_reaches_neither_root_key_nor_pin_nor_store_nor_the_network() {
    let (found, said) = tried("", false);
    let refused = "root-key refused\npin refused\nstore refused\npasswd opened\ninet refused\nunix opened\n";
    assert_eq!(found, refused, "{said}");
    assert!(said.contains("hsm1"), "{said}");
}

#[test]
fn a_module_that_needs_the_network_gets_it_and_nothing_more() {
    let (found, said) = tried("network = true", false);
    let refused = "root-key refused\npin refused\nstore refused\npasswd opened\ninet opened\nunix opened\n";
    assert_eq!(found, refused, "{said}");
}

#[test]
fn a_module_that_starts_another_program_dies_of_it() {
    let (found, said) = tried("", true);
    assert!(!found.contains("exec"), "{found}");
    assert!(said.contains("its worker ends while it starts"), "{said}");
}
