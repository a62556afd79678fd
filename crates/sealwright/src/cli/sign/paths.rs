//! Which files a command is about: paths on the command line, and lists of paths.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use sealwright_client::source::stdin::NAME;

use crate::failure::Failure;

/// Longest list in bytes: four million names of the usual length.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// Paths of `sign` and `strip`.
#[derive(Debug, clap::Args)]
pub(crate) struct PathArgs {
    /// Take further paths from this file, one a line; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Option<PathBuf>,
    /// Names in --files-from end with a zero byte, as `find -print0` writes them.
    #[arg(short = '0', long = "null", requires = "files_from")]
    null: bool,
    /// Files, or directories with -r.
    #[arg(required_unless_present = "files_from", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

impl PathArgs {
    /// Whether standard input itself is to be signed.
    pub(crate) fn names_standard_input(&self) -> bool {
        self.paths.iter().any(|path| path == Path::new(NAME))
    }

    /// All paths, those of the command line first.
    ///
    /// # Errors
    /// The list cannot be read, is too long, or holds a name with a zero byte (without -0).
    pub(crate) fn all(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = self.paths.clone();
        if let Some(list) = &self.files_from {
            let read = if list == Path::new(NAME) {
                read(io::stdin().lock())
            } else {
                File::open(list).and_then(read)
            };
            let bytes = read.map_err(|error| {
                let what = format!("cannot read the list of files {}: {error}", list.display());
                Failure::usage(what, "Name a file with one path a line.")
            })?;
            paths.extend(names(&bytes, self.null).map_err(|what| {
                Failure::usage(
                    format!("{}: {what}", list.display()),
                    "Use -0 for names that end with a zero byte.",
                )
            })?);
        }
        Ok(paths)
    }

    /// The words of these arguments, without the paths.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(list) = &self.files_from {
            words.extend(["--files-from".to_owned(), list.display().to_string()]);
        }
        if self.null {
            words.push("-0".to_owned());
        }
        words
    }
}

fn read(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LIST_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LIST_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {LIST_BYTES_MAX} bytes"),
        ));
    }
    Ok(bytes)
}

/// The names of a list; empty ones are passed over. `-` in a list is a file of that name.
fn names(bytes: &[u8], null: bool) -> Result<Vec<PathBuf>, &'static str> {
    let end = if null { 0 } else { b'\n' };
    if !null && bytes.contains(&0) {
        return Err("it holds a zero byte");
    }
    let name = |name: &[u8]| {
        let path = PathBuf::from(OsString::from_vec(name.to_vec()));
        if path == Path::new(NAME) { Path::new(".").join(path) } else { path }
    };
    Ok(bytes.split(|byte| *byte == end).filter(|part| !part.is_empty()).map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_by_line_or_by_zero_byte_and_names_are_kept_as_they_are() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            names(b"a b.rpm\n\n c\r\n-\nlast", false).unwrap(),
            paths(&["a b.rpm", " c\r", "./-", "last"])
        );
        assert_eq!(names(b"a\nb\0\0c\0", true).unwrap(), paths(&["a\nb", "c"]));
        assert_eq!(names(b"", false).unwrap(), paths(&[]));
        assert!(names(b"a\0b\n", false).is_err());
    }
}
