//! Man pages and shell completions, written by the program itself from its own command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::error::Error;
use crate::process;

/// Where generated files lie: the option of `sealwright generate`, and the folder.
const FOLDERS: &[(&str, &str)] = &[("--man", "docs/man"), ("--completions", "packaging/completions")];

/// Writes the generated files, or with `check` compares them with what would be written.
pub(crate) fn run(check: bool) -> Result<()> {
    let program = process::build_sealwright(false)?;
    let fresh = tempfile::tempdir().map_err(Error::file(Path::new("temporary folder")))?;
    let mut command = Command::new(&program);
    command.arg("generate").env_remove("SEALWRIGHT_SERVER").env_remove("SEALWRIGHT_KEY");
    for (option, folder) in FOLDERS {
        let folder = fresh.path().join(folder);
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        command.arg(option).arg(folder);
    }
    process::run(&mut command)?;
    let mut stale = 0_usize;
    for (_, folder) in FOLDERS {
        let there = process::root().join(folder);
        let new = contents(&fresh.path().join(folder))?;
        if new.is_empty() {
            return Err(Error::unexpected(format!("`sealwright generate` wrote nothing for {folder}")));
        }
        let old = contents(&there)?;
        for name in new.keys().chain(old.keys().filter(|name| !new.contains_key(*name))) {
            if new.get(name) == old.get(name) {
                continue;
            }
            stale = stale.saturating_add(1);
            println!("{folder}/{name}: {}", if check { "stale" } else { "written" });
            if !check {
                replace(&there.join(name), new.get(name))?;
            }
        }
    }
    if check && stale > 0 {
        println!("run `cargo xtask generate` and commit the result");
        return Err(Error::Findings { count: stale, what: "stale generated files" });
    }
    Ok(())
}

/// Files of a folder by name; empty where the folder is not there yet.
fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    if !folder.exists() {
        return Ok(BTreeMap::new());
    }
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        let path = entry.map_err(Error::file(folder))?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            let bytes = fs::read(&path).map_err(Error::file(&path))?;
            files.insert(name.to_string_lossy().into_owned(), bytes);
        }
    }
    Ok(files)
}

fn replace(path: &Path, content: Option<&Vec<u8>>) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    match content {
        Some(bytes) => fs::write(path, bytes).map_err(Error::file(path)),
        None => fs::remove_file(path).map_err(Error::file(path)),
    }
}
