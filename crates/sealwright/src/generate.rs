//! Man pages and shell completions, made from the command tree itself. `cargo xtask generate` keeps the
//! committed ones fresh.

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, ValueEnum as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};

/// Where to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the man pages (sealwright.1, sealwright-sign.1, ...).
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
    /// Directory for the completions of every shell.
    #[arg(long, value_name = "DIR")]
    completions: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(dir) = &args.man {
        std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command(), dir))
            .and_then(|()| section_extras(dir))
            .map_err(|error| cannot_write(dir, &error))?;
    }
    if let Some(dir) = &args.completions {
        std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
        for shell in Shell::value_variants() {
            clap_complete::generate_to(*shell, &mut command(), "sealwright", dir)
                .map_err(|error| cannot_write(dir, &error))?;
        }
    }
    Ok(Exit::Done)
}

/// What follows the options in `--help` is one section "EXTRA" of flowing text to clap: here each of its headings
/// becomes a section, with lines as they are.
fn section_extras(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            let page = std::fs::read_to_string(&path)?;
            std::fs::write(&path, with_sections(&page))?;
        }
    }
    Ok(())
}

fn with_sections(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (extra, after) = rest.split_once(".SH ").map_or((rest, None), |(extra, after)| (extra, Some(after)));
    let mut text = before.to_owned();
    let mut open = false;
    for line in extra.trim_end().lines() {
        let heading =
            line.strip_suffix(':').filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == ' '));
        match heading {
            Some(name) => {
                text.push_str(if open { ".fi\n" } else { "" });
                text.push_str(&format!(".SH {name}\n.nf\n"));
            }
            None if !open => text.push_str(&format!(".SH NOTES\n.nf\n{line}\n")),
            None => text.push_str(&format!("{line}\n")),
        }
        open = true;
    }
    text.push_str(".fi\n");
    if let Some(after) = after {
        text.push_str(&format!(".SH {after}"));
    }
    text
}

fn command() -> clap::Command {
    Cli::command()
}

fn cannot_write(dir: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot write in {}: {error}", dir.display()),
        "Choose a directory that is yours.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_of_the_help_is_a_section_of_the_manual_page() {
        let page =
            ".SH OPTIONS\nx\n.SH EXTRA\nFirst.\n\nEXIT STATUS:\n  0  done\n\nFILES:\n  a\n.SH VERSION\nv1\n";
        let expected = ".SH OPTIONS\nx\n.SH NOTES\n.nf\nFirst.\n\n.fi\n.SH EXIT STATUS\n.nf\n  0  done\n\n.fi\n\
                        .SH FILES\n.nf\n  a\n.fi\n.SH VERSION\nv1\n";
        assert_eq!(with_sections(page), expected);
        assert_eq!(with_sections(".SH NAME\nx\n"), ".SH NAME\nx\n");
    }
}
