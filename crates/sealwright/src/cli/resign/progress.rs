//! How far a campaign is: a bar for a person at a terminal, a line every half minute for a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sealwright_client::campaign::plan::Count;
use tokio::task::JoinHandle;

use crate::output::size;
use crate::terminal;

/// Between two lines, where there is no terminal.
const EVERY: Duration = Duration::from_secs(30);

/// Of one pass over the trees.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    pass: Arc<Pass>,
    lines: Option<JoinHandle<()>>,
}

struct Pass {
    /// "signed".
    what: &'static str,
    total: Option<Count>,
    begun: Instant,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Begins now; `total` is what is ahead, if that is known.
    pub(super) fn begin(what: &'static str, total: Option<Count>) -> Self {
        let pass = Arc::new(Pass {
            what,
            total,
            begun: Instant::now(),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        if terminal::stderr_is_terminal() {
            return Self { bar: Some(bar(total)), pass, lines: None };
        }
        let said = Arc::clone(&pass);
        let lines = tokio::spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.tick().await;
            loop {
                every.tick().await;
                terminal::err(&said.text());
            }
        });
        Self { bar: None, pass, lines: Some(lines) }
    }

    /// One more.
    pub(super) fn add(&self, bytes: u64) {
        self.pass.files.fetch_add(1, Ordering::Relaxed);
        self.pass.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc(1);
            bar.set_message(self.pass.text());
        }
    }

    /// Prints without spoiling the bar.
    pub(super) fn beside(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(lines) = &self.lines {
            lines.abort();
        }
    }
}

impl Pass {
    fn text(&self) -> String {
        let done =
            Count { files: self.files.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) };
        text(self.what, done, self.total, self.begun.elapsed())
    }
}

fn text(what: &str, done: Count, total: Option<Count>, elapsed: Duration) -> String {
    let per_second = done.files.saturating_mul(1000).checked_div(millis(elapsed)).unwrap_or(0);
    let Some(total) = total else {
        return format!("{} files {what}, {}, {per_second}/s", done.files, size(done.bytes));
    };
    let left = total.files.saturating_sub(done.files);
    let left_ms = u128::from(millis(elapsed)).saturating_mul(u128::from(left));
    let left = match left_ms.checked_div(u128::from(done.files)) {
        Some(ms) => duration(u64::try_from(ms / 1000).unwrap_or(u64::MAX)),
        None => "unknown time".to_owned(),
    };
    format!(
        "{} of {} files {what}, {} of {}, {per_second}/s, {left} left",
        done.files,
        total.files,
        size(done.bytes),
        size(total.bytes),
    )
}

fn millis(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// As a person says it.
pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn bar(total: Option<Count>) -> ProgressBar {
    let bar = total.map_or_else(ProgressBar::new_spinner, |total| ProgressBar::new(total.files));
    let template = if total.is_some() { "{bar:30} {msg}" } else { "{spinner} {msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_bytes_rate_and_time_left_are_said() {
        let done = Count { files: 500, bytes: 1 << 30 };
        let total = Count { files: 22_000, bytes: 44 << 30 };
        assert_eq!(
            text("signed", done, Some(total), Duration::from_secs(10)),
            "500 of 22000 files signed, 1.0 GiB of 44.0 GiB, 50/s, 8 min left"
        );
        assert_eq!(
            text("signed", Count::default(), Some(total), Duration::ZERO),
            "0 of 22000 files signed, 0 B of 44.0 GiB, 0/s, unknown time left"
        );
        assert_eq!(
            text("looked at", done, None, Duration::from_secs(1)),
            "500 files looked at, 1.0 GiB, 500/s"
        );
        assert_eq!(
            (duration(119), duration(7199), duration(9000)),
            ("119 s".into(), "120 min".into(), "2 h 30 min".into())
        );
    }
}
