//! Reports for a person and for a program: what both kinds of output of `sign`, `verify`, `strip` and `inspect`
//! have in common. Results go to standard output, failures, warnings and the last line to standard error.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sealwright_client::error::Error;
use serde::Serialize;

use crate::cli::Context;
use crate::failure::Failure;
use crate::terminal;

/// Files named in a `Retry:` line at most; beyond, the same command does it, since finished files are left alone.
const RETRY_FILES_MAX: usize = 40;

/// Longest `Retry:` line in bytes: room for as many files, each with the longest path there is, quoted.
const RETRY_BYTES_MAX: usize = 256 << 10;

/// Where results of one command go.
pub(crate) struct Output {
    json: bool,
    bar: Option<ProgressBar>,
    failed: Vec<(usize, PathBuf)>,
}

impl Output {
    /// `files`: how many are to come; a bar is shown for more than one, and only to a person.
    pub(crate) fn new(context: Context, files: usize) -> Self {
        let bar = (files > 1 && terminal::stderr_is_terminal()).then(|| progress_bar(files));
        Self { json: context.json, bar, failed: Vec::new() }
    }

    /// One more file is done.
    pub(crate) fn advance(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A result: an object for a program, or lines for a person.
    pub(crate) fn result(&self, json: &impl Serialize, lines: &[String]) {
        self.beside_bar(|| {
            if self.json {
                terminal::json(json);
            } else {
                lines.iter().for_each(|line| terminal::out(line));
            }
        });
    }

    /// What a person must know of a file that is done.
    pub(crate) fn warnings(&self, path: &Path, warnings: &[String]) {
        self.beside_bar(|| {
            for warning in warnings {
                terminal::err(&format!("Warning: {}: {}", shown(path), terminal::safe(warning)));
            }
        });
    }

    /// A file that failed: the block of design, and for a program the object.
    pub(crate) fn failure(&mut self, index: usize, path: &Path, error: &Error, json: &impl Serialize) {
        self.failed.push((index, path.to_owned()));
        self.beside_bar(|| {
            if self.json {
                terminal::json(json);
            }
            failure_lines(path, &Failure::chain(error), error.advice()).iter().for_each(|l| terminal::err(l));
        });
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// `Retry: COMMAND FILES`, if anything failed. With many files, or where the place of a result depends on how its
    /// file was named (`keep_names`), it is the whole command again: `lists` are the options that name lists of files,
    /// `all` the paths on the command line.
    pub(crate) fn retry(&mut self, command: &[String], lists: &[String], all: &[PathBuf], keep_names: bool) {
        if self.failed.is_empty() {
            return;
        }
        self.failed.sort();
        let failed: Vec<PathBuf> = self.failed.iter().map(|(_, path)| path.clone()).collect();
        let whole = || command_line(&[command, lists].concat(), all);
        let too_many = keep_names || failed.len() > RETRY_FILES_MAX;
        let line = if too_many { whole() } else { command_line(command, &failed) };
        let line = if line.len() > RETRY_BYTES_MAX { whole() } else { line };
        if line.len() <= RETRY_BYTES_MAX {
            terminal::err_whole(&format!("Retry: {line}"));
        }
    }

    fn beside_bar(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

fn progress_bar(files: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(files).unwrap_or(u64::MAX));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} files {per_sec} {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// `FAILED name: reason`, and what to do, indented.
pub(crate) fn failure_lines(path: &Path, reason: &str, advice: &str) -> Vec<String> {
    let mut lines = vec![format!("FAILED {}: {}", shown(path), terminal::safe(reason))];
    if !advice.is_empty() {
        lines.push(format!("       {}", terminal::safe(advice)));
    }
    lines
}

/// A failure of one file, for a program.
#[derive(Debug, Serialize)]
pub(crate) struct FailureView {
    /// What happened.
    pub(crate) error: String,
    /// What to do.
    pub(crate) advice: String,
    /// Whether the same call can succeed later.
    pub(crate) retry: bool,
    /// The server's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
}

impl FailureView {
    /// Of an error.
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            error: Failure::chain(error),
            advice: error.advice().to_owned(),
            retry: error.retry() == sealwright_client::error::Retry::Yes,
            code: error.server_code().map(sealwright_client::error::Code::name),
        }
    }
}

/// A path in JSON: its text, and its bytes where the text cannot hold them.
#[derive(Debug, Serialize)]
pub(crate) struct PathView {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_hex: Option<String>,
}

impl PathView {
    /// Of a path.
    pub(crate) fn of(path: &Path) -> Self {
        let file_hex = match path.to_str() {
            Some(_) => None,
            None => Some(sealwright_crypto::digest::to_hex(path.as_os_str().as_bytes())),
        };
        Self { file: path.to_string_lossy().into_owned(), file_hex }
    }
}

/// Milliseconds with a fraction, for JSON.
pub(crate) fn milliseconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

/// A path as it is safe to show: control characters and bytes that are no text are escaped.
pub(crate) fn shown(path: &Path) -> String {
    terminal::safe(&sealwright_client::shown::shown(path))
}

/// A size as a person reads it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0usize;
    while value >= 1024.0 && unit < 3 {
        value /= 1024.0;
        unit = unit.saturating_add(1);
    }
    format!("{value:.1} {}", UNITS.get(unit).copied().unwrap_or_default())
}

/// `4F2A...91C0`: enough of a fingerprint to tell keys apart.
pub(crate) fn short_fingerprint(hex: &str) -> String {
    let upper = hex.to_ascii_uppercase();
    match (upper.get(..4), upper.get(upper.len().saturating_sub(4)..)) {
        (Some(head), Some(tail)) if upper.len() > 8 => format!("{head}...{tail}"),
        _ => upper,
    }
}

/// A command line that a shell reads back as these words; paths that look like options are told apart.
pub(crate) fn command_line(words: &[String], paths: &[PathBuf]) -> String {
    let mut line: Vec<String> = words.iter().map(|word| quoted(OsStr::new(word))).collect();
    if paths.iter().any(|path| path.as_os_str().as_bytes().starts_with(b"-")) {
        line.push("--".to_owned());
    }
    line.extend(paths.iter().map(|path| quoted(path.as_os_str())));
    line.join(" ")
}

/// One word for a POSIX shell; bytes that a terminal would obey, or that are no text, in `$'...'`.
fn quoted(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    match word.to_str() {
        Some(text) if terminal::safe(text) == text => format!("'{}'", text.replace('\'', r"'\''")),
        Some(_) | None => {
            let escaped: String = bytes
                .iter()
                .map(|byte| match byte {
                    b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                    b' '..=b'~' => char::from(*byte).to_string(),
                    _ => format!("\\x{byte:02x}"),
                })
                .collect();
            format!("$'{escaped}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &[u8]) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(name))
    }

    #[test]
    fn a_retry_line_is_read_back_by_the_shell_as_the_same_words() {
        let names: [&[u8]; 7] =
            [b"a b.rpm", b"it's.rpm", b"-dash.rpm", b"%{x}$HOME.rpm", b"n\nl", b"\xff.rpm", b""];
        let paths: Vec<PathBuf> = names.iter().map(|name| bytes(name)).collect();
        let line = command_line(&["printf".to_owned(), "%s\\0".to_owned()], &paths);
        assert!(!line.contains('\n'));
        let said = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
        let words: Vec<&[u8]> = said.stdout.split(|byte| *byte == 0).collect();
        // After its format, printf prints `--` as any other word.
        assert_eq!(words.first(), Some(&b"--".as_slice()), "{line}");
        assert_eq!(words.get(1..=names.len()), Some(names.as_slice()), "{line}");
    }

    #[test]
    fn names_that_are_no_text_are_escaped_for_display_and_exact_in_json() {
        let path = bytes(b"a\xff\x1b[2J.rpm");
        assert_eq!(shown(&path), "a\\xff\\u{1b}[2J.rpm");
        let view = serde_json::to_value(PathView::of(&path)).unwrap();
        assert_eq!(view.get("file_hex").unwrap(), "61ff1b5b324a2e72706d");
        let plain = serde_json::to_value(PathView::of(Path::new("a.rpm"))).unwrap();
        assert!(plain.get("file_hex").is_none());
    }

    #[test]
    fn a_failure_reads_like_the_one_of_the_design() {
        let lines = failure_lines(
            Path::new("bad.rpm"),
            "header SHA-256 differs from the package's own",
            "Damaged after it was built. Fetch or rebuild it.",
        );
        assert_eq!(
            lines,
            [
                "FAILED bad.rpm: header SHA-256 differs from the package's own",
                "       Damaged after it was built. Fetch or rebuild it.",
            ]
        );
    }

    #[test]
    fn fingerprints_and_sizes_are_short() {
        assert_eq!(short_fingerprint("4f2a0000000000000000000000000000000091c0"), "4F2A...91C0");
        assert_eq!(short_fingerprint("ab"), "AB");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
