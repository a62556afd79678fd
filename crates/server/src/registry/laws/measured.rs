//! Memory, measured: each of these tests runs in a process of its own, so that nothing else is counted.

use std::process::Command;

use super::*;

/// Whether this is a process for that test alone; else makes one and sees that it succeeds.
fn alone(test: &str) -> bool {
    if std::env::args().any(|argument| argument == "--exact") {
        return true;
    }
    let path = format!("registry::laws::measured::{test}");
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--exact", &path, "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// Anonymous memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn r10_random_names_leave_no_memory_behind() {
    if !alone("r10_random_names_leave_no_memory_behind") {
        return;
    }
    let registry = Registry::new(Shelf::with(1));
    runtime().block_on(async {
        registry.find(&named(1)).await.unwrap();
        for n in 0..1_000 {
            registry.find(&named(2 + n)).await.unwrap_err();
        }
        let before = resident();
        for n in 0..usize::try_from(MANY).unwrap() {
            registry.find(&named(2 + n)).await.unwrap_err();
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 1 << 20, "{grown} bytes");
    });
}

#[test]
fn r10_the_bytes_that_are_counted_are_not_fewer_than_are_taken() {
    if !alone("r10_the_bytes_that_are_counted_are_not_fewer_than_are_taken") {
        return;
    }
    let mut kept = Vec::new();
    for sealed in [300, 3_000] {
        let registry = Registry::new(Shelf::with(0));
        let before = resident();
        for n in 0..BYTES_MAX / 2 / (ENTRY_BYTES + sealed) {
            let mut key = key(n);
            key.material.sealed = vec![7; sealed];
            registry.put(key);
        }
        let (_, counted) = registry.memory.size();
        let taken = resident() - before;
        kept.push(registry);
        assert!(taken <= counted && taken >= counted / 2, "{taken} bytes taken, {counted} counted");
    }
}

#[test]
fn r5_cycles_of_loads_leave_no_memory_behind() {
    if !alone("r5_cycles_of_loads_leave_no_memory_behind") {
        return;
    }
    let registry = Registry::new(Shelf::with(1));
    runtime().block_on(async {
        let mut before = 0;
        for cycle in 0..2_000 {
            registry.find(&named(1)).await.unwrap();
            registry.memory.forget(&named(1));
            if cycle == 999 {
                before = resident();
            }
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 1_000 << 10, "{grown} bytes in 1,000 cycles");
    });
}
