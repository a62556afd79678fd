//! `tokens.toml`. Any bytes are read or refused in one line; what is read keeps every rule, and is written and read
//! again as the same.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use sealwright_signer::token_fuzz::{Entry, entries};

pub(crate) fn run(data: &[u8]) {
    let all = match entries(data) {
        Ok(all) => all,
        Err(why) => {
            assert!(!why.chars().any(char::is_control), "{why:?} is not one line");
            return;
        }
    };
    assert!(all.len() <= 16);
    assert_eq!(all.iter().map(|entry| &entry.name).collect::<HashSet<_>>().len(), all.len());
    all.iter().for_each(keeps_the_rules);
    let written: String = all.iter().map(written).collect();
    assert_eq!(entries(written.as_bytes()).unwrap(), all, "writing and reading changed the tokens");
}

fn keeps_the_rules(entry: &Entry) {
    assert!((1..=64).contains(&entry.name.len()) && entry.name.is_ascii() && !entry.name.contains('/'));
    assert!(entry.module.is_absolute() && entry.paths.iter().all(|path| path.is_absolute()));
    assert!(entry.paths.len() <= 32 && entry.environment.len() <= 32);
    assert!(!(entry.label.is_empty() && entry.serial.is_empty()) && entry.pin_file != Path::new(""));
    assert!(entry.sessions_max.is_none_or(|sessions| (1..=64).contains(&sessions)));
    assert!(entry.deadline_ms.is_none_or(|deadline| (100..=30_000).contains(&deadline)));
    // As the system wants them for a process that is started.
    assert!(entry.environment.keys().all(|name| !name.is_empty() && !name.contains('=')));
    assert!(!entry.environment.iter().any(|(name, value)| format!("{name}{value}").contains('\0')));
    assert!(!entry.environment.keys().any(|name| name.starts_with("LD_")));
}

fn written(entry: &Entry) -> String {
    let path = |path: &Path| string(path.to_str().unwrap());
    let mut text = format!(
        "[[token]]\nname = {}\nmodule = {}\nlabel = {}\nserial = {}\npin_file = {}\nnetwork = {}\n",
        string(&entry.name),
        path(&entry.module),
        string(&entry.label),
        string(&entry.serial),
        path(&entry.pin_file),
        entry.network,
    );
    let paths: Vec<String> = entry.paths.iter().map(|one| path(one)).collect();
    writeln!(text, "paths = [{}]", paths.join(", ")).unwrap();
    for (name, number) in
        [("sessions_max", entry.sessions_max.map(u64::from)), ("deadline_ms", entry.deadline_ms)]
    {
        if let Some(number) = number {
            writeln!(text, "{name} = {number}").unwrap();
        }
    }
    let variables: Vec<String> = entry
        .environment
        .iter()
        .map(|(name, value)| format!("{} = {}", string(name), string(value)))
        .collect();
    writeln!(text, "environment = {{ {} }}", variables.join(", ")).unwrap();
    text
}

/// A basic string of TOML 1.0.
fn string(text: &str) -> String {
    let mut written = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => written.extend(['\\', character]),
            control if control.is_control() => write!(written, "\\U{:08X}", u32::from(control)).unwrap(),
            plain => written.push(plain),
        }
    }
    written.push('"');
    written
}
