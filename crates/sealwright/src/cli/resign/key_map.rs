//! `--key-map FILE`: which key signs the packages of which directory.
//!
//! ```text
//! # comment
//! el9         = release-9
//! "el9/beta"  = beta
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sealwright_client::campaign::tree::Tree;
use sealwright_client::source::kept;

use crate::cli::resign::Args;
use crate::failure::Failure;

/// Longest key map in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Keys in one campaign at most.
const KEYS_MAX: usize = 1000;

/// Keys, and the directories that they are for.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) keys: Vec<String>,
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
            return Ok(Self { keys, directories: vec![(PathBuf::from("/"), 0)] });
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
        let mut rules = Self { keys: Vec::new(), directories: Vec::new() };
        for (number, line) in (1u32..).zip(text.lines()) {
            let wrong = |why: String| {
                let what = format!("the key map {}, line {number}: {why}", path.display());
                Failure::usage(what, "Write lines of DIRECTORY = KEY; directories are relative to the file.")
            };
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            let Some((directory, key)) = line.rsplit_once('=') else {
                return Err(wrong("there is no =".to_owned()));
            };
            let (directory, key) = (unquoted(directory), unquoted(key));
            if directory.is_empty() || key.is_empty() {
                return Err(wrong("a directory or a key is missing".to_owned()));
            }
            let named = base.join(directory);
            let real = named.canonicalize().map_err(|error| wrong(format!("{directory}: {error}")))?;
            if !real.is_dir() {
                return Err(wrong(format!("{directory} is no directory")));
            }
            if rules.directories.iter().any(|(known, _)| *known == real) {
                return Err(wrong(format!("{directory} has a key already")));
            }
            let at = rules.keys.iter().position(|known| known == key).unwrap_or(rules.keys.len());
            if at == rules.keys.len() {
                rules.keys.push(key.to_owned());
            }
            if rules.keys.len() > KEYS_MAX {
                return Err(wrong(format!("more than {KEYS_MAX} keys")));
            }
            rules.directories.push((real, at));
        }
        // In one order, whatever that of the lines is: it is a part of what makes the campaign this one.
        rules.directories.sort();
        Ok(rules)
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

/// Up to a # that begins the line or follows a blank, outside quotes: names of keys may hold one.
fn without_comment(line: &str) -> &str {
    let (mut is_quoted, mut after_blank) = (false, true);
    for (at, character) in line.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            '#' if after_blank && !is_quoted => return line.get(..at).unwrap_or(line),
            _ => {}
        }
        after_blank = character.is_whitespace();
    }
    line
}

/// Without blanks and quotes around it.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(folder: &Path, text: &str) -> Result<Rules, Failure> {
        Rules::parse(text, &folder.join("keys"))
    }

    #[test]
    fn a_comment_begins_the_line_or_follows_a_blank_and_is_no_part_of_a_key() {
        for (line, content) in [
            ("# all", ""),
            ("el9 = release-9      # relative", "el9 = release-9      "),
            ("el9 = a#b", "el9 = a#b"),
            ("\"el #9\" = a # b", "\"el #9\" = a "),
        ] {
            assert_eq!(without_comment(line), content);
        }
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
