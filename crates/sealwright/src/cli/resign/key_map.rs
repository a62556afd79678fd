//! `--key-map FILE`: which key signs the packages of which directory. The client's `campaign/key_map.rs` reads the text; here
//! its directories are looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sealwright_client::campaign::key_map::{self, FILE_BYTES_MAX, Line};
use sealwright_client::campaign::tree::Tree;
use sealwright_client::source::kept;

use crate::cli::resign::Args;
use crate::failure::Failure;

/// Keys in one campaign at most.
const KEYS_MAX: usize = 1000;

/// Keys, and the directories that they are for.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) keys: Vec<String>,
    /// By what each was named: the option, or the first line.
    pub(super) named: Vec<String>,
    /// Real path, and number of the key.
    pub(super) directories: Vec<(PathBuf, usize)>,
}

impl Rules {
    /// One key for all, or those of the map.
    ///
    /// # Errors
    /// The map cannot be read or is wrong; a tree has no key, or a directory of the map is in no tree.
    pub(super) fn of(args: &Args, trees: &[Tree]) -> Result<Self, Failure> {
        let Some(path) = &args.key_map else {
            let keys = args.key.clone().into_iter().collect();
            let named = vec!["--key".to_owned()];
            return Ok(Self { keys, named, directories: vec![(PathBuf::from("/"), 0)] });
        };
        let text = kept::read_text(path, FILE_BYTES_MAX).map_err(|error| {
            Failure::usage(
                format!("the key map {}: {error}", path.display()),
                "Write lines of DIRECTORY = KEY.",
            )
        })?;
        let rules = Self::parse(&text, path)?;
        let tree_paths: Vec<&Path> = trees.iter().map(Tree::path).collect();
        rules.check(path, &tree_paths)?;
        Ok(rules)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let base = path.parent().unwrap_or(Path::new(""));
        let line_named = |number: u32| format!("the key map {}, line {number}", path.display());
        let wrong = |number: u32, why: String| {
            let what = format!("{}: {why}", line_named(number));
            Failure::usage(what, "Write lines of DIRECTORY = KEY; directories are relative to the file.")
        };
        let (mut keys, mut named): (Vec<String>, Vec<String>) = Default::default();
        // In one order, whatever that of the lines is: it is a part of what makes the campaign this one.
        let mut directories: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for line in key_map::parse(text).map_err(|(number, why)| wrong(number, why.to_string()))? {
            let Line { number, directory, key } = line;
            let real = base.join(directory).canonicalize();
            let real = real.map_err(|error| wrong(number, format!("{directory}: {error}")))?;
            if !real.is_dir() {
                return Err(wrong(number, format!("{directory} is no directory")));
            }
            let at = keys.iter().position(|known| known == key).unwrap_or(keys.len());
            if at == keys.len() {
                keys.push(key.to_owned());
                named.push(line_named(number));
            }
            if keys.len() > KEYS_MAX {
                return Err(wrong(number, format!("more than {KEYS_MAX} keys")));
            }
            if directories.insert(real, at).is_some() {
                return Err(wrong(number, format!("{directory} has a key already")));
            }
        }
        Ok(Self { keys, named, directories: directories.into_iter().collect() })
    }

    fn check(&self, path: &Path, trees: &[&Path]) -> Result<(), Failure> {
        let wrong = |what: String, advice| {
            Err(Failure::usage(format!("the key map {}: {what}", path.display()), advice))
        };
        let near = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
        let lost: BTreeSet<&Path> = self
            .directories
            .iter()
            .map(|(directory, _)| directory.as_path())
            .filter(|directory| !trees.iter().any(|tree| near(directory, tree)))
            .collect();
        if let Some(directory) = lost.first() {
            return wrong(
                format!("{} is in none of the trees", directory.display()),
                "Name its tree too, or take the line out.",
            );
        }
        let keyless =
            trees.iter().find(|tree| !self.directories.iter().any(|(directory, _)| near(directory, tree)));
        if let Some(tree) = keyless {
            return wrong(
                format!("no key for anything in {}", tree.display()),
                "Add a line for it, or leave the tree out.",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(folder: &Path, text: &str) -> Result<Rules, Failure> {
        Rules::parse(text, &folder.join("keys"))
    }

    #[test]
    fn directories_are_relative_to_the_file_and_unknown_or_repeated_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["el8", "el9", "el9/a = b"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let rules = parse(folder.path(), "# all\nel9 = new\n\nel8=old\n\"el9/a = b\" = \"new\"\n").unwrap();
        assert_eq!(rules.keys, ["new", "old"]);
        let real = folder.path().canonicalize().unwrap();
        let keys: Vec<(PathBuf, usize)> =
            vec![(real.join("el8"), 1), (real.join("el9"), 0), (real.join("el9/a = b"), 0)];
        assert_eq!(rules.directories, keys);
        for (bad, why) in [
            ("el7 = new", "line 1: el7"),
            ("el9 = new\nel9/ = old", "line 2: el9/ has a key already"),
            ("el9", "there is no ="),
            ("= new", "missing"),
            ("el9 =", "missing"),
        ] {
            let failure = parse(folder.path(), bad).unwrap_err();
            assert!(failure.what.contains(why), "{bad}: {}", failure.what);
        }
    }

    #[test]
    fn a_tree_without_a_key_and_a_directory_outside_all_trees_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("el9/x86_64")).unwrap();
        let rules = parse(folder.path(), "el9/x86_64 = new").unwrap();
        let real = folder.path().canonicalize().unwrap();
        let check = |trees: &[&Path]| rules.check(Path::new("keys"), trees);
        check(&[&real.join("el9")]).unwrap();
        check(&[&real.join("el9/x86_64/deeper")]).unwrap();
        assert!(check(&[&real.join("el8")]).unwrap_err().what.contains("in none of the trees"));
        let both = check(&[&real.join("el9"), &real.join("el8")]).unwrap_err();
        assert!(both.what.contains("no key for anything"), "{}", both.what);
    }
}
