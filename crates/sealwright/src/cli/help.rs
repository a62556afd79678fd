//! What `--help` and the manual pages say after the options.

/// Of `strip`.
pub(crate) const STRIP: &str = "\
With --output DIR, what has the name of a copy there is replaced only if
it is a package, as of an earlier call; all else is refused by name.

After a signal (Ctrl-C) no other file is begun; a second one ends the
program at once. Files are whole in either case.

EXIT STATUS:
  0  every file is stripped, or had no signature
  1  at least one file failed (the others are stripped), or a signal came
  2  wrong usage: nothing was attempted

EXAMPLES:
  sealwright strip *.rpm
        Remove the signatures from packages where they are.
  sealwright strip -r --output unsigned/ repo/
        Copies without signatures of all packages of a tree.";

/// Of the program.
pub(crate) const TOP: &str = "\
EXIT STATUS:
  0  everything was done; for verify: every file is valid
  1  at least one file or key failed, a signal came first, or the
     results could not be written
  2  wrong usage: nothing was attempted
  3  no server was reached, or it gave no access: nothing was attempted

ENVIRONMENT:
  SEALWRIGHT_HOME
        One directory for everything below FILES.
  SEALWRIGHT_KEY
        The key of sign when --key is not given.
  SEALWRIGHT_LOG
        What is logged on standard error: error, warn (default), info,
        debug, trace; also by part: warn,sealwright_server=debug.
  SEALWRIGHT_LOG_FORMAT
        text (default), or json: one object a line.
  SEALWRIGHT_TRACEPARENT, TRACEPARENT
        The trace that a run is a part of (W3C traceparent), for logs.
  SEALWRIGHT_SERVER
        Server to ask, as https://HOST:PORT, or embedded for the keys of
        this user. Default: what client.toml says, else embedded.
  SEALWRIGHT_CLIENT_CONFIG
        The file client.toml, if it is not at its place.
  SEALWRIGHT_REQUIRE_SANDBOX
        If set, nothing is signed on a kernel without Landlock.
  XDG_DATA_HOME, XDG_CONFIG_HOME, XDG_STATE_HOME
        Used when SEALWRIGHT_HOME is not set.

FILES:
  $SEALWRIGHT_HOME/store, or ~/.local/share/sealwright/store
        Keys, sealed under the root key, and the log of signatures.
  $SEALWRIGHT_HOME/root, or ~/.config/sealwright/root
        The root key. Whoever has it and the store has the keys.
  $SEALWRIGHT_HOME/revocations, or ~/.local/share/sealwright/revocations
        A revocation certificate for each key that was made: keep a copy
        in a safe place.
  $SEALWRIGHT_HOME/client.toml, or ~/.config/sealwright/client.toml, or
  /etc/sealwright/client.toml
        The server to ask, and the certificates for it; made by
        sealwright init.
  $SEALWRIGHT_HOME/state, or ~/.local/state/sealwright
        Undo records of sign --in-place, for the time of a call.

  Back up store and root, both of the same moment, while no command
  runs, and keep them in different places: either is of no use without
  the other, to you as to a thief.

EXAMPLES:
  sealwright key create release --uid \"Example <releases@example.org>\"
  sealwright sign --key release *.rpm
  sealwright key export release > release.asc
  sealwright verify --keyring release.asc *.rpm";

/// Of `init`.
pub(crate) const INIT: &str = "\
Everything is made in one step, or nothing. A directory that has
something in it is left alone, and what is there is named.

FILES, below the directory:
  server.toml, clients.toml
        For sealwright serve: where it listens; who may do what.
  tls/  The server's certificate and key, and the authority of clients.
  ca/   The certificate authority, and the list of what it has issued.
        Not needed to serve: keep it elsewhere between two uses.
  clients/NAME/
        To be handed to the user NAME, as ~/.config/sealwright.
  root/ The root key: for the signer alone. Back it up with the store,
        in another place.

EXAMPLES:
  sealwright init --name sign.example.org
  sealwright init --client build-7 --key release --key nightly
  sealwright init --revoke build-7

EXIT STATUS:
  0  done
  1  not done, and nothing was changed
  2  wrong usage";

/// Of `sign`.
pub(crate) const SIGN: &str = "\
A single - as PATH is standard input (--format detached): the signature
goes to standard output.

With --output DIR, what has the name of a copy there is replaced only if
it is a package, as of an earlier call; all else is refused by name
before a signature is asked for.

After a signal (Ctrl-C) no other file is begun, and those for which no
signature was asked are given up; a second one ends the program at once.
Files are whole in either case.

EXIT STATUS:
  0  every file is signed, or was left as it is on purpose
  1  at least one file failed (the others are signed), or a signal came
  2  wrong usage: nothing was attempted
  3  no server was reached, or it gave no access: nothing was attempted

ENVIRONMENT:
  SEALWRIGHT_HOME, SEALWRIGHT_KEY, SEALWRIGHT_LOG: see sealwright(1)

EXAMPLES:
  sealwright sign --key release *.rpm
        Sign packages where they are.
  sealwright sign --key release -r --output signed/ repo/
        Signed copies of all packages of a tree; the tree stays.
  sealwright sign --key release --format detached image.iso
        Writes image.iso.asc. A file of that name is replaced only if it
        holds signatures and nothing else.
  find . -name '*.rpm' -print0 |
      sealwright sign --key release -0 --files-from -
  tar c dir |
      sealwright sign --key release --format detached - > dir.tar.asc";

/// Of `resign`.
pub(crate) const RESIGN: &str = "\
Packages that carry the new key already are left as they are; what is no
package is left alone. Symbolic links are not followed.

A signal (Ctrl-C), a full disk, a lost server: what is in hand is
finished, and the last line is the command that goes on. Nothing is
signed twice: a request that was on its way is asked for again under its
own id. A second signal does not wait. After a failed sync nobody knows
what is on the disk: the campaign stops and says so.

At the end the headers of all packages are read again, and counted by
key. Repository metadata beside them has to be made anew; the commands
are said.

EXIT STATUS:
  0  every package that was meant carries the new key
  1  at least one does not, or a signal came
  2  wrong usage: nothing was attempted
  3  no server was reached, or it gave no access: nothing was attempted

FILES:
  $SEALWRIGHT_HOME/state/campaign-..., or
  ~/.local/state/sealwright/campaign-...
        The journal: by it a campaign goes on, and back (--undo). About
        1 KB for each package. A finished one is kept; remove it when
        there is no way back to be kept.

EXAMPLES:
  sealwright resign --key new --from old --dry-run /srv/repo
        What is there, and what would be done.
  sealwright resign --key new --from old /srv/repo
        Replace the signatures of one key by those of another.
  sealwright resign --key new --output /srv/repo-2 /srv/repo
        Build a second tree to switch to; the first stays as it is.
  sealwright resign --key-map keys.txt --rate 50 /srv/repo
        A key for each directory; not more than 50 a second.
  sealwright resign --undo --journal FILE
        Put the old signatures back.";

/// Of `import`.
pub(crate) const IMPORT: &str = "\
The passphrase files of the old service say which keys it serves, and by
which names. gpg is asked for each of them; its secret goes through a
pipe, encrypted to the signer, and never into a file. What is there
already is left alone: the same command goes on where one ended.

EXIT STATUS:
  0  everything is there now, or would be (--dry-run)
  1  something was not taken, each with its reason, or a signal came
  2  wrong usage: nothing was attempted
  3  no server was reached, or it gave no access: nothing was attempted

EXAMPLES:
  sealwright import copr-keygen /var/lib/copr-keygen --dry-run
        What would be taken, and what not.
  sealwright import copr-keygen /var/lib/copr-keygen \\
      --obs-digest --obs-digest-on-primary
        Keys that obs-sign's clients can go on to sign with.
  sealwright import obs-signd --sign-conf /etc/sign.conf
        Keys of a signd, and the text for [obs] of server.toml.";

/// Of `obs-shadow`.
pub(crate) const OBS_SHADOW: &str = "\
Clients ask here as they ask their signd, and get its bytes. When a
client has its answer, the server of ours is asked the same, and the two
answers are compared; no client waits for it. Each difference is counted
by its kind, and named in a line on standard output, one a minute of
each kind. A summary is written now and then, and at the end.

Not asked twice: keygen (it would make a second key), privtotp,
privileged, and requests that are not complete. Digests that ours signs
have entries in its log like any other.

As root it asks signd from ports below 1024, as signd wants to be asked.

EXIT STATUS:
  0  a signal ended it; the last line has the counts
  1  it cannot listen, or the lines could not be written
  2  wrong usage: nothing was attempted

EXAMPLES:
  sealwright obs-shadow --listen 5168 --signd 127.0.0.1:5167 \\
      --ours sign.example.org:5167
        For clients on this host, with port: 5168 in their sign.conf.
  sealwright --json obs-shadow --listen 192.0.2.1:5168 \\
      --allow 192.0.2.7 --allow 198.51.100.0/24 \\
      --signd 127.0.0.1:5167 --ours 127.0.0.1:5267 >shadow.json
        For other hosts; one JSON object a line.";

/// Of `verify`.
pub(crate) const VERIFY: &str = "\
A file is one of valid, unsigned, unknown-key, future, expired, weak,
malformed, bad; the worst of its signatures counts. Without --key,
--keyring and --cert the certificates of all keys of the store count.

EXIT STATUS:
  0  every file is valid
  1  at least one is not, could not be looked at, or a signal came first
  2  wrong usage: nothing was attempted
  3  no server was reached, or it gave no access: nothing was attempted

ENVIRONMENT:
  SEALWRIGHT_HOME, SEALWRIGHT_LOG: see sealwright(1)

EXAMPLES:
  sealwright verify --keyring release.asc *.rpm
  sealwright verify --keyring release.asc image.iso
        Finds image.iso.asc and image.iso.sig.
  curl https://example.org/release.asc |
      sealwright verify --keyring - -r repo/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_terminal_of_80_columns_beside_the_margins_of_man() {
        for text in [STRIP, TOP, IMPORT, OBS_SHADOW, INIT, SIGN, RESIGN, VERIFY] {
            for line in text.lines() {
                assert!(line.len() <= 73, "{line}");
            }
        }
    }
}
