//! What is said at the beginning and at the end of a campaign: what was found, what was done, what is left to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sealwright_client::batch::Stop;
use sealwright_client::campaign::Campaign;
use sealwright_client::campaign::check::Check;
use sealwright_client::campaign::journal::Past;
use sealwright_client::campaign::plan::{Count, Plan};
use sealwright_client::campaign::run::Summary;

use crate::cli::resign::printer::{Known, Printer, SummaryView};
use crate::cli::resign::{Args, command, failed, progress, say};
use crate::duration::utc;
use crate::failure::{Exit, Failure};
use crate::output::{command_line, short_fingerprint, shown, size};
use crate::terminal;

/// Keys that are named in the line about the check.
const KEYS_SHOWN_MAX: usize = 10;

/// Whether it is a beginning.
pub(super) fn say_past(campaign: &Campaign, past: &Past) {
    let Past::Begun { at, applied, open } = past else { return };
    let journal = campaign.journal().map(|journal| shown(journal.path())).unwrap_or_default();
    say(&format!(
        "Going on with the campaign of {}: {applied} signed so far, {open} were in hand (journal {journal})",
        utc(*at)
    ));
}

/// What is ahead.
pub(super) fn say_plan(plan: &Plan) {
    let Count { files, bytes } = plan.sign;
    let mut line = format!("{files} to sign ({})", size(bytes));
    let mut part = |count: u64, what: &str| {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    };
    part(plan.already.files, "signed by the new key already");
    part(plan.unsigned.files, "unsigned (stay so)");
    part(plan.foreign.files, "of other keys (stay so)");
    part(plan.no_key.files, "in directories without a key (stay as they are)");
    part(plan.failed.files, "that cannot be read");
    part(plan.others.files, "no packages");
    if plan.is_stopped {
        line.push_str("; stopped before all were looked at");
    }
    say(&line);
}

/// The end of a run.
pub(super) struct Ending<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) summary: &'a Summary,
    pub(super) args: &'a Args,
    pub(super) printer: &'a Printer,
}

impl Ending<'_> {
    /// Checks, says everything, and closes the journal where nothing is left.
    pub(super) async fn say(&self, stop: &Stop) -> Result<Exit, Failure> {
        let summary = self.summary;
        self.say_counts();
        self.say_reasons();
        let is_complete = summary.failed == 0 && summary.not_begun == 0 && summary.fatal.is_none();
        let is_over = summary.fatal.is_none() && !stop.is_asked();
        let check = if is_over {
            Some(self.campaign.check(stop).await.map_err(|error| failed(&error))?)
        } else {
            None
        };
        let is_clean = check.as_ref().is_some_and(|check| self.say_check(check));
        let regenerate = self.say_repositories()?;
        let listed = self.write_purge_list();
        let may_finish = is_complete && is_over;
        let (kept, is_finished) = self.close(may_finish).await;
        self.say_second(is_finished);
        listed?;
        let known =
            Known { summary, check: check.as_ref(), is_finished, journal: kept.as_deref(), regenerate };
        self.printer.summary(&SummaryView::of(known));
        Ok(if is_finished && is_clean { Exit::Done } else { Exit::Failed })
    }

    fn say_counts(&self) {
        let summary = self.summary;
        let mut line = format!("{} signed", summary.signed);
        let mut part = |count: u64, what: &str| {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        };
        part(summary.already, "signed before");
        part(summary.unsigned, "unsigned (left so)");
        part(summary.foreign, "of other keys (left so)");
        part(summary.no_key, "without a key (left as they are)");
        part(summary.failed, "failed (unchanged)");
        part(summary.not_begun, "not begun");
        line.push_str(&format!(" in {}.", progress::duration(summary.elapsed.as_secs())));
        for signer in self.campaign.keys().signers() {
            let key = signer.key();
            line.push_str(&format!(" Key {} {}.", key.name, short_fingerprint(&key.fingerprint)));
        }
        say(&line);
    }

    fn say_reasons(&self) {
        for reason in &self.summary.reasons {
            let names: Vec<String> = reason.examples.iter().map(|path| shown(path)).collect();
            let more =
                if reason.files > u64::try_from(names.len()).unwrap_or(u64::MAX) { ", ..." } else { "" };
            say(&format!("{} failed: {} ({}{more})", reason.files, reason.why, names.join(", ")));
            say(&format!("       {}", reason.advice));
        }
        if let Some(fatal) = &self.summary.fatal {
            say_stopped(&fatal.path, &fatal.why, &fatal.advice);
        }
    }

    /// Whether nothing is left that the campaign should have reached.
    fn say_check(&self, check: &Check) -> bool {
        say(&check_line(check));
        let (left, what) = match &self.args.from {
            Some(old) if check.old == 1 => (1, format!("still carries the old key {old}")),
            Some(old) => (check.old, format!("still carry the old key {old}")),
            None if check.not_new == 1 => (1, "does not carry the new key".to_owned()),
            None => (check.not_new, "do not carry the new key".to_owned()),
        };
        if left > 0 {
            say(&format!("{} {what}:", packages(left)));
            for path in &check.examples {
                say(&format!("       {}", shown(path)));
            }
        }
        left == 0 && check.unreadable == 0 && !check.is_stopped
    }

    /// The commands that make metadata anew: checksums of all changed packages in it are wrong.
    fn say_repositories(&self) -> Result<Vec<String>, Failure> {
        let found: BTreeSet<PathBuf> = self.campaign.repositories().map_err(|error| failed(&error))?;
        let words = ["createrepo_c".to_owned(), "--update".to_owned()];
        let commands: Vec<String> =
            found.iter().map(|directory| command_line(&words, std::slice::from_ref(directory))).collect();
        if !commands.is_empty() {
            say("The repository metadata has checksums of the old files. Make it anew:");
            commands.iter().for_each(|command| terminal::err_whole(&format!("       {command}")));
        }
        Ok(commands)
    }

    fn write_purge_list(&self) -> Result<(), Failure> {
        let Some(list) = &self.args.purge_list else { return Ok(()) };
        let count = self.campaign.write_changes(list).map_err(|error| failed(&error))?;
        say(&format!("{count} changed paths to purge from caches are in {}", shown(list)));
        Ok(())
    }

    fn say_second(&self, is_finished: bool) {
        let Some(second) = self.campaign.second().filter(|_| is_finished) else { return };
        let link = self.args.dirs.iter().find(|dir| dir.is_symlink());
        let link = link.map_or_else(|| PathBuf::from("LINK"), |link| trimmed(link));
        let mut new = link.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let make = command_line(&words(&["ln", "-sfn"]), &[second.path().to_owned(), new.clone()]);
        let switch = command_line(&words(&["mv", "-T"]), &[new, link]);
        say("The new tree is ready. Switch the symbolic link that readers use:");
        terminal::err_whole(&format!("       {make} && {switch}"));
    }

    /// Finished, the journal is only the way back; otherwise it is the way on.
    /// Returns where it lies, if it is there, and whether the campaign has finished.
    async fn close(&self, may_finish: bool) -> (Option<PathBuf>, bool) {
        let Some(journal) = self.campaign.journal() else { return (None, may_finish) };
        let path = journal.path().to_owned();
        let keeps = self.campaign.second().is_some();
        let kept = if may_finish { journal.finish(keeps).await.map(Some) } else { Ok(None) };
        let kept = match kept {
            Ok(Some(kept)) => kept,
            Ok(None) => {
                terminal::err_whole(&format!("Go on: {}", command(self.args)));
                return (Some(path), false);
            }
            Err(error) => {
                say_stopped(&path, &Failure::chain(&error), error.advice());
                terminal::err_whole(&format!("Go on: {}", command(self.args)));
                return (Some(path), false);
            }
        };
        if !kept {
            return (None, true);
        }
        if self.campaign.second().is_none() {
            let words = ["sealwright", "resign", "--undo", "--journal"].map(str::to_owned);
            let back = command_line(&words, std::slice::from_ref(&path));
            terminal::err_whole(&format!("The way back: {back}"));
        }
        (Some(path), true)
    }
}

/// Without slashes at its end, which would follow the link.
fn trimmed(path: &Path) -> PathBuf {
    path.components().collect()
}

fn say_stopped(path: &Path, why: &str, advice: &str) {
    say(&format!("STOPPED at {}: {why}", shown(path)));
    say(&format!("       {advice}"));
}

/// Every number in it is true beside every other: keys that are not named are counted, and so are packages that several
/// keys have signed.
fn check_line(check: &Check) -> String {
    let mut keys: Vec<(&String, u64)> = check.keys.iter().map(|(key, count)| (key, *count)).collect();
    keys.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (named, others) = keys.split_at(keys.len().min(KEYS_SHOWN_MAX));
    let mut parts: Vec<String> = named
        .iter()
        .map(|(key, count)| match key.as_str() {
            "" => format!("{count} by a key without a name"),
            key => format!("{count} by {}", short_fingerprint(key)),
        })
        .collect();
    let others = others.iter().fold(check.further, |sum, (_, count)| sum.saturating_add(*count));
    let mut part = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    };
    part(others, "by other keys");
    part(check.unsigned, "unsigned");
    let mut line = format!("Check: {}", packages(check.packages));
    if !parts.is_empty() {
        line.push_str(&format!(": {}", parts.join(", ")));
    }
    if check.several > 0 {
        line.push_str(&format!(" ({} by several keys, counted for each)", check.several));
    }
    if check.unreadable > 0 {
        line.push_str(&format!("; {} more cannot be read", check.unreadable));
    }
    if check.is_stopped {
        line.push_str("; stopped before all were looked at");
    }
    line
}

fn packages(count: u64) -> String {
    if count == 1 { "1 package".to_owned() } else { format!("{count} packages") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_check_agree_with_each_other_in_every_combination() {
        let id = |number: usize| format!("{number:016x}");
        let none = Check::default();
        assert_eq!(check_line(&none), "Check: 0 packages");
        let unsigned = Check { packages: 1, unsigned: 1, ..Check::default() };
        assert_eq!(check_line(&unsigned), "Check: 1 package: 1 unsigned");
        let keys = [(id(1), 2), (String::new(), 1)].into();
        let both = Check { packages: 3, unsigned: 1, keys, several: 1, unreadable: 2, ..Check::default() };
        let line = check_line(&both);
        let first = short_fingerprint(&id(1));
        let expected = format!(
            "Check: 3 packages: 2 by {first}, 1 by a key without a name, 1 unsigned (1 by several keys, counted for each); 2 more cannot be read"
        );
        assert_eq!(line, expected);
        let keys = (0..KEYS_SHOWN_MAX + 2).map(|number| (id(number), 5)).collect();
        let packages = 5 * (KEYS_SHOWN_MAX as u64 + 2) + 7;
        let many = Check { packages, keys, further: 7, is_stopped: true, ..Check::default() };
        let line = check_line(&many);
        assert!(line.contains(", 17 by other keys; stopped before all were looked at"), "{line}");
    }
}
