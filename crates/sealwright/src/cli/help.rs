//! What `--help` and the manual pages say after the options.

/// Exit statuses, the same for every command (failure.rs).
pub(crate) const STATUS: &str = "\
EXIT STATUS:
  0  everything was done; for verify: every file is valid
  1  at least one file or key failed, or a signal came first
  2  wrong usage: nothing was attempted
  3  the server was not reached or gave no access: nothing was attempted";

/// Of the program.
pub(crate) const TOP: &str = "\
EXIT STATUS:
  0  everything was done; for verify: every file is valid
  1  at least one file or key failed, or a signal came first
  2  wrong usage: nothing was attempted
  3  the server was not reached or gave no access: nothing was attempted

ENVIRONMENT:
  SEALWRIGHT_HOME             one directory for everything below FILES
  SEALWRIGHT_KEY              the key of sign when --key is not given
  SEALWRIGHT_LOG              what is logged on standard error: error, warn (default), info, debug, trace
  SEALWRIGHT_REQUIRE_SANDBOX  if set, nothing is signed on a kernel without Landlock
  XDG_DATA_HOME, XDG_CONFIG_HOME, XDG_STATE_HOME
                              used when SEALWRIGHT_HOME is not set; then HOME

FILES:
  $SEALWRIGHT_HOME/store        keys, sealed under the root key, and the log of signatures;
                                else $XDG_DATA_HOME/sealwright/store (~/.local/share/sealwright/store)
  $SEALWRIGHT_HOME/root         the root key: whoever has it and the store has the keys;
                                else $XDG_CONFIG_HOME/sealwright/root (~/.config/sealwright/root)
  $SEALWRIGHT_HOME/revocations  a revocation certificate for each key that was made: keep a copy elsewhere;
                                else $XDG_DATA_HOME/sealwright/revocations
  $SEALWRIGHT_HOME/state        undo records of sign --in-place, for the time of a call;
                                else $XDG_STATE_HOME/sealwright (~/.local/state/sealwright)

  Back up store and root, both of the same moment, while no command runs, and keep them in different places:
  either is of no use without the other, to you as to a thief.

EXAMPLES:
  sealwright key create release --uid \"Example Releases <releases@example.org>\"
  sealwright sign --key release *.rpm
  sealwright key export release > release.asc
  sealwright verify --keyring release.asc *.rpm";

/// Of `sign`.
pub(crate) const SIGN: &str = "\
A first signal (Ctrl-C) begins no other file, and ends files for which no signature was asked; a second ends the
program at once. Files are whole in either case.

EXIT STATUS:
  0  every file is signed, or was left as it is on purpose
  1  at least one file failed, or a signal came first; the others are signed
  2  wrong usage: nothing was attempted
  3  the server was not reached or gave no access: nothing was attempted

ENVIRONMENT:
  SEALWRIGHT_HOME, SEALWRIGHT_KEY, SEALWRIGHT_LOG: see sealwright(1)

EXAMPLES:
  sealwright sign --key release *.rpm
        Sign packages where they are.
  sealwright sign --key release -r --output signed/ repo/
        Signed copies of all packages of a tree; the tree stays.
  sealwright sign --key release --format detached image.iso
        Writes image.iso.asc. A file of that name is replaced only if it holds signatures and nothing else.
  find . -name '*.rpm' -print0 | sealwright sign --key release -0 --files-from -
  tar c dir | sealwright sign --key release --format detached - > dir.tar.asc";

/// Of `verify`.
pub(crate) const VERIFY: &str = "\
A file is one of valid, unsigned, unknown-key, future, expired, weak, malformed, bad; the worst of its signatures counts.
Without --key, --keyring and --cert the certificates of all keys of the store count.

EXIT STATUS:
  0  every file is valid
  1  at least one is not, could not be looked at, or was not looked at because of a signal
  2  wrong usage: nothing was attempted
  3  the server was not reached or gave no access: nothing was attempted

ENVIRONMENT:
  SEALWRIGHT_HOME, SEALWRIGHT_LOG: see sealwright(1)

EXAMPLES:
  sealwright verify --keyring release.asc *.rpm
  sealwright verify --keyring release.asc image.iso
        Finds image.iso.asc and image.iso.sig.
  curl https://example.org/release.asc | sealwright verify --keyring - -r repo/";
