//! The packages that are measured with: made once below target/bench, and put back into their unsigned state before
//! each run.

mod header;
mod package;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::package::Spec;
use crate::error::Error;
use crate::{Result, process};

/// To be changed with what is written, so that older inputs are made again.
const VERSION: &str = "2";
/// Packages of the set `mixed`.
pub(super) const MIXED: u64 = 400;
/// Smallest and largest of them, in bytes; the logarithms of the sizes are spread evenly between.
const MIXED_BYTES: (f64, f64) = (20e3, 20e6);
/// Bytes of each of the three large ones.
pub(super) const LARGE_BYTES: u64 = 1_900_000_000;
/// Packages of the set `small`, and in one folder of it.
pub(super) const SMALL: u64 = 20_000;
const SMALL_IN_FOLDER: u64 = 1_000;
const SMALL_BYTES: u64 = 10_000;
/// One file in a package of the set `mixed` for so many bytes, and at most.
const BYTES_OF_A_FILE: f64 = 20e3;
const FILES_MAX: f64 = 300.0;

/// A set of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// 400 of 20 KB to 20 MB.
    Mixed,
    /// Three of 1.9 GB, with all digests that rpmbuild writes.
    Large,
    /// One of 1.9 GB, for a file system of its own.
    LargeOne,
    /// 20,000 of 10 KB.
    Small,
    /// One of 20 KB.
    Single,
}

impl Kind {
    const fn folder(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Large => "large",
            Self::LargeOne => "large-one",
            Self::Small => "small",
            Self::Single => "single",
        }
    }

    /// Specifications of the packages, each with its path below the folder of the set.
    fn specs(self) -> Vec<(PathBuf, Spec)> {
        let numbers = 0..match self {
            Self::Mixed => MIXED,
            Self::Large => 3,
            Self::Small => SMALL,
            Self::Single | Self::LargeOne => 1,
        };
        numbers.map(|number| self.spec(number)).collect()
    }

    fn spec(self, number: u64) -> (PathBuf, Spec) {
        let name = format!("{}{number:05}", self.folder());
        let path = match self {
            Self::Small => {
                let folder = number.checked_div(SMALL_IN_FOLDER).unwrap_or(0);
                PathBuf::from(format!("{folder:02}/{name}.rpm"))
            }
            Self::Mixed | Self::Large | Self::LargeOne | Self::Single => PathBuf::from(format!("{name}.rpm")),
        };
        let spec = match self {
            Self::Mixed => {
                let size = mixed_size(number);
                let files = (size / BYTES_OF_A_FILE).clamp(1.0, FILES_MAX);
                Spec::of_size(name, whole(size), whole(files))
            }
            Self::Large | Self::LargeOne => Spec::of_size(name, LARGE_BYTES, 1),
            Self::Small => Spec::of_size(name, SMALL_BYTES, 1),
            Self::Single => Spec::of_size(name, 20_000, 1),
        };
        (path, spec)
    }
}

/// Not in order of their names, so that small and large ones are mixed as in a repository.
fn mixed_size(number: u64) -> f64 {
    /// Without a factor in common with their number.
    const STEP: u64 = 149;
    let place = number.saturating_mul(STEP).checked_rem(MIXED).unwrap_or(0);
    let share = float(place) / float(MIXED.saturating_sub(1));
    let (least, most) = MIXED_BYTES;
    least * (most / least).powf(share)
}

/// A set on the disk.
pub(super) struct Set {
    kind: Kind,
    folder: PathBuf,
    /// Each with its size before it is signed.
    packages: Vec<(PathBuf, u64)>,
    /// First parts of all packages in order, each of the same length.
    heads: Vec<u8>,
    /// The same without the digest MD5; of the set `Large` alone.
    without_md5: Vec<u8>,
}

impl Set {
    /// The set below `place`; made if it is not there.
    pub(super) fn below(place: &Path, kind: Kind) -> Result<Self> {
        let folder = place.join(kind.folder());
        let stamp = place.join(format!("{}.made", kind.folder()));
        let heads = place.join(format!("{}.heads", kind.folder()));
        let without_md5 = place.join(format!("{}.heads-without-md5", kind.folder()));
        let sizes = place.join(format!("{}.sizes", kind.folder()));
        if fs::read_to_string(&stamp).is_ok_and(|made| made == VERSION) {
            let heads = fs::read(&heads).map_err(Error::file(&heads))?;
            let without_md5 = fs::read(&without_md5).map_err(Error::file(&without_md5))?;
            let text = fs::read_to_string(&sizes).map_err(Error::file(&sizes))?;
            let sizes = text.lines().map(|line| line.parse().unwrap_or(0));
            let packages = kind.specs().into_iter().map(|(path, _)| folder.join(path)).zip(sizes).collect();
            return Ok(Self { kind, folder, packages, heads, without_md5 });
        }
        println!("xtask: making packages in {}", folder.display());
        let mut set = Self { kind, folder, packages: Vec::new(), heads: Vec::new(), without_md5: Vec::new() };
        for (path, spec) in kind.specs() {
            let path = set.folder.join(path);
            make_parent(&path)?;
            let heads = spec.write(&path)?;
            set.heads.extend(heads.usual);
            if kind == Kind::Large {
                set.without_md5.extend(heads.without_md5);
            }
            let size = fs::metadata(&path).map_err(Error::file(&path))?.len();
            set.packages.push((path, size));
        }
        fs::write(&heads, &set.heads).map_err(Error::file(&heads))?;
        fs::write(&without_md5, &set.without_md5).map_err(Error::file(&without_md5))?;
        let text: String = set.packages.iter().map(|(_, size)| format!("{size}\n")).collect();
        fs::write(&sizes, text).map_err(Error::file(&sizes))?;
        set.settle()?;
        set.accepted_by_rpm()?;
        fs::write(&stamp, VERSION).map_err(Error::file(&stamp))?;
        Ok(set)
    }

    /// Where its packages are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its packages.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.packages.iter().map(|(path, _)| path.as_path())
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.packages.len()
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.packages.iter().map(|(_, size)| *size).sum()
    }

    /// Makes all of them unsigned again: only what a signature changes is written, unless a file has another size now.
    /// Everything is on the disk afterwards.
    pub(super) fn restore(&self) -> Result<()> {
        self.restore_with(&self.heads)
    }

    /// The same, without the digest MD5: of the set `Large` alone.
    pub(super) fn restore_without_md5(&self) -> Result<()> {
        self.restore_with(&self.without_md5)
    }

    fn restore_with(&self, heads: &[u8]) -> Result<()> {
        let head_bytes = self.head_bytes();
        for ((number, (path, size)), head) in (0_u64..).zip(&self.packages).zip(heads.chunks(head_bytes)) {
            let is_same_size = fs::metadata(path).is_ok_and(|metadata| metadata.len() == *size);
            if is_same_size {
                let file = fs::OpenOptions::new().write(true).open(path).map_err(Error::file(path))?;
                file.write_all_at(head, 0).map_err(Error::file(path))?;
            } else {
                let (_, spec) = self.kind.spec(number);
                spec.write(path)?;
            }
        }
        self.settle()
    }

    /// Where the payload of the first one cannot begin yet: what is read from here on counts as payload. The main
    /// header of a package with one file is shorter than this.
    pub(super) fn head_bytes(&self) -> usize {
        self.heads.len().checked_div(self.packages.len()).unwrap_or(0).max(1)
    }

    /// Reads all of it, so that it is in the cache.
    pub(super) fn warm(&self) -> Result<()> {
        process::output(Command::new("cat").args(self.paths()).stdout(std::process::Stdio::null()))?;
        Ok(())
    }

    /// How many of them have a signature over the header that rpm finds good, with the keys of this database.
    pub(super) fn signed(&self, database: &Path) -> Result<usize> {
        let mut good = 0_usize;
        let paths: Vec<&Path> = self.paths().collect();
        for some in paths.chunks(1_000) {
            let said =
                process::output(Command::new("rpmkeys").arg("--dbpath").arg(database).arg("-Kv").args(some))?;
            let is_good = |line: &&str| {
                line.contains("Header") && line.contains("Signature, key ID") && line.ends_with(": OK")
            };
            good = good.saturating_add(said.lines().filter(is_good).count());
        }
        Ok(good)
    }

    fn settle(&self) -> Result<()> {
        process::run(Command::new("sync").arg("--file-system").arg(&self.folder))
    }

    /// One of them, in every detail; the others are written by the same code.
    fn accepted_by_rpm(&self) -> Result<()> {
        let Some(path) = self.paths().last() else { return Ok(()) };
        process::output(Command::new("rpmkeys").args(["--nosignature", "-K"]).arg(path)).map(|_| ())
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(Error::file(folder))
}

pub(super) fn float(value: u64) -> f64 {
    value as f64
}

fn whole(value: f64) -> u64 {
    value as u64
}
