//! A failure of a whole command, for a person: what, and what to do. Failures of single files are reports
//! (`output.rs`), not this.

/// Exit statuses of design: 0 all done, 1 at least one failed, 2 wrong usage, 3 server not reached or access
/// refused before any file was attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done,
    /// At least one file or key failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// Nothing could be attempted.
    Unreachable,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
        })
    }
}

/// Why a command could not be carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What failed, with the causes that the error chain knows.
    pub(crate) what: String,
    /// What to do.
    pub(crate) advice: String,
    /// The exit status.
    pub(crate) exit: Exit,
    /// The server's name for it, if it was a server's.
    pub(crate) code: Option<&'static str>,
    /// Milliseconds after which the server wants to be asked again.
    pub(crate) retry_after_ms: Option<u32>,
}

/// The object of `--json` (docs/json.md).
#[derive(Debug, serde::Serialize)]
pub(crate) struct View<'a> {
    status: &'static str,
    error: &'a str,
    advice: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u32>,
}

impl Failure {
    /// A failure of the thing asked for.
    pub(crate) fn failed(what: impl Into<String>, advice: impl Into<String>) -> Self {
        let (what, advice) = (what.into(), advice.into());
        Self { what, advice, exit: Exit::Failed, code: None, retry_after_ms: None }
    }

    /// Wrong use of the command line.
    pub(crate) fn usage(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(what, advice) }
    }

    /// What the client's library says.
    pub(crate) fn of(error: &sealwright_client::error::Error, exit: Exit) -> Self {
        Self {
            exit,
            code: error.server_code().map(sealwright_client::error::Code::name),
            retry_after_ms: error.come_again_ms(),
            ..Self::failed(Self::chain(error), error.advice())
        }
    }

    /// A signal asked for a stop before anything was begun.
    pub(crate) fn stopped() -> Self {
        Self::failed("stopped by a signal; nothing was signed", "Run the same command again.")
    }

    /// For a program: there is no file that it belongs to.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            status: "failed",
            error: &self.what,
            advice: &self.advice,
            code: self.code,
            retry_after_ms: self.retry_after_ms,
        }
    }
    /// An error with its chain of causes, each once.
    pub(crate) fn chain(error: &dyn std::error::Error) -> String {
        sealwright_client::shown::with_causes(error)
    }
}
