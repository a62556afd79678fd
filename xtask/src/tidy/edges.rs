//! Who may depend on whom: the table "Crates and edges" of docs/ARCHITECTURE.md against the manifests, and
//! what the process with the keys must not link.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::Findings;
use crate::error::Error;
use crate::process::{self, cargo};
use crate::{Result, tidy};

/// The document with the table.
const TABLE: &str = "docs/ARCHITECTURE.md";

/// Libraries that only some crates may name in their manifest, with the reason.
const RESTRICTED: &[(&str, &[&str], &str)] = &[
    ("clap", &["sealwright", "xtask"], "command lines are in binaries"),
    ("hyper-util", &["sealwright", "server", "client"], "transport is where connections are made"),
    ("hpke", &["client", "signer"], "imported secrets are sealed by the client and opened by the signer"),
    ("sqlx", &["store"], "SQL is in the store alone"),
    ("tokio", &["client", "sealwright", "server", "store"], "the pure crates and the signer are not async"),
    ("tonic", &["client", "proto", "sealwright", "server"], "gRPC is between client and server"),
];

/// What must not be in the tree of normal dependencies of a crate, with all its own dependencies.
const ABSENT: &[(&str, &[&str])] = &[
    ("sealwright-signer", &["tonic", "hyper", "sqlx", "tokio", "sealwright-store", "sealwright-formats"]),
    ("sealwright-server", &["sealwright-signer", "sealwright-formats", "sealwright-client"]),
    ("sealwright-client", &["sqlx", "sealwright-signer", "sealwright-server", "sealwright-store"]),
    ("sealwright-formats", &["tokio", "tonic", "hyper", "sqlx"]),
    ("sealwright-crypto", &["tokio", "tonic", "hyper", "sqlx"]),
    ("sealwright-obs", &["tokio", "tonic", "hyper", "sqlx", "rustls", "aws-lc-rs", "pgp"]),
    ("sealwright-tlog", &["tokio", "tonic", "hyper", "sqlx"]),
];

/// The crate that every other may use in its tests.
const FOR_TESTS: &str = "testkit";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    manifest_path: String,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

/// Checks manifests and dependency trees.
pub(super) fn check() -> Result<Findings> {
    let table = allowed(&tidy::text(Path::new(TABLE))?);
    let metadata = metadata()?;
    let mut findings = Findings::new();
    let members: BTreeSet<&str> = metadata.packages.iter().map(|package| short(&package.name)).collect();
    for name in table.keys().filter(|name| !members.contains(name.as_str())) {
        findings.push(format!("{TABLE}: the table names `{name}`, which is no crate of the workspace"));
    }
    for package in &metadata.packages {
        findings.extend(own_edges(package, &table, &members));
        findings.extend(restricted(package));
        findings.extend(manifest(package)?);
    }
    findings.extend(trees()?);
    Ok(findings)
}

/// Rows of the table: crate in the first column, what it may depend on in the third, both in backticks.
fn allowed(document: &str) -> BTreeMap<String, BTreeSet<String>> {
    document
        .lines()
        .skip_while(|line| !line.starts_with("| Crate |"))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            let name = backticked(cells.get(1)?).into_iter().next()?;
            Some((name, backticked(cells.get(3)?)))
        })
        .collect()
}

fn backticked(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn metadata() -> Result<Metadata> {
    let output =
        process::output(&mut cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&output).map_err(|source| Error::Json { command: "cargo metadata", source })
}

fn short(name: &str) -> &str {
    name.strip_prefix("sealwright-").unwrap_or(name)
}

fn own_edges(
    package: &Package,
    table: &BTreeMap<String, BTreeSet<String>>,
    members: &BTreeSet<&str>,
) -> Findings {
    let name = short(&package.name);
    let Some(allowed) = table.get(name) else {
        return vec![format!("{TABLE}: the table has no row for `{name}`")];
    };
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some() && members.contains(short(&dependency.name)))
        .filter(|dependency| {
            let target = short(&dependency.name);
            let in_tests = dependency.kind.as_deref() == Some("dev") && target == FOR_TESTS;
            !in_tests && !allowed.contains(target)
        })
        .map(|dependency| {
            format!(
                "{name} depends on {}, which the table in {TABLE} does not allow",
                short(&dependency.name)
            )
        })
        .collect()
}

fn restricted(package: &Package) -> Findings {
    let name = short(&package.name);
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind.as_deref() != Some("dev") && name != FOR_TESTS)
        .filter_map(|dependency| {
            let (library, owners, reason) =
                RESTRICTED.iter().find(|(library, _, _)| *library == dependency.name)?;
            (!owners.contains(&name)).then(|| format!("{name} names {library} in its manifest: {reason}"))
        })
        .collect()
}

/// Lints are inherited, and versions stand in the workspace manifest alone.
fn manifest(package: &Package) -> Result<Findings> {
    let path = Path::new(&package.manifest_path);
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    let manifest: toml::Table =
        toml::from_str(&text).map_err(|source| Error::Toml { path: path.to_owned(), source })?;
    let mut findings = Findings::new();
    let inherits = |value: Option<&toml::Value>| {
        value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    if !inherits(manifest.get("lints")) {
        findings.push(format!("{} lacks `[lints] workspace = true`", path.display()));
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (name, value) in manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
            if !inherits(Some(value)) {
                findings.push(format!("{}: {name} is not taken from the workspace", path.display()));
            }
        }
    }
    Ok(findings)
}

fn trees() -> Result<Findings> {
    let mut findings = Findings::new();
    for (package, absent) in ABSENT {
        let tree = process::output(&mut cargo(&[
            "tree",
            "--locked",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ]))?;
        let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        if !names.contains(package) {
            findings.push(format!("cargo tree shows no {package}"));
        }
        for name in absent.iter().filter(|name| names.contains(*name)) {
            findings.push(format!("{package} links {name}, directly or through another crate"));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn a_row_gives_the_crate_and_what_it_may_use() {
        let table = allowed(
            "text\n| Crate | Why | May use | Never |\n|---|---|---|---|\n| `a` | x | `b`, `c` | `d` |\n| `b` | y | – | |\n\n| `z` | | `a` | |\n",
        );
        assert_eq!(table.len(), 2);
        assert!(table["a"].contains("b") && table["a"].contains("c") && !table["a"].contains("d"));
        assert!(table["b"].is_empty());
    }
}
