//! The texts of the files that a person will read and edit.

use std::path::Path;

use crate::init::Users;

/// What differs between installations.
pub(super) struct ServerText<'a> {
    /// host:port to listen on.
    pub(super) listen: &'a str,
    /// As written into the file.
    pub(super) store: &'a Path,
    /// As written into the file.
    pub(super) socket: &'a Path,
    /// The users of an installation that has two.
    pub(super) users: Option<&'a Users>,
}

/// server.toml.
pub(super) fn server(text: &ServerText<'_>) -> String {
    let uid = text.users.map_or_else(
        || "# uid = 998                          # the user of the signer, if it is not that of serve and not root\n".to_owned(),
        |users| format!("uid = {}                          # the user of the signer, if it is not that of serve and not root\n", users.signer.1.uid),
    );
    let users = text.users.map_or_else(
        || "# [users]                            # with two users: serve, started by root, runs its parts as these\n# front = \"sealwright\"\n# signer = \"sealwright-signer\"\n".to_owned(),
        |users| format!("[users]                              # serve, started by root, runs its parts as these\nfront = \"{}\"\nsigner = \"{}\"\n", users.front.0, users.signer.0),
    );
    let (listen, store, socket) = (text.listen, text.store.display(), text.socket.display());
    format!(
        "# Configuration of sealwright serve. Names of files are relative to this one.
# Check it with: sealwright serve --config THIS --check-config
# What can be reloaded (kill -HUP): [tls], [clients], the files that they name, and [log].

[listen]
address = [\"{listen}\"]
# metrics = \"127.0.0.1:9464\"         # plain HTTP: /metrics, /livez, /readyz

[tls]
certificate = \"tls/server.pem\"       # sealwright init --renew-server issues the next one
key = \"tls/server.key\"
client_ca = \"tls/ca.pem\"             # whose clients are let in
# crl = \"tls/crl.pem\"                # revocations of an authority that is not sealwright init's

[clients]
file = \"clients.toml\"                # who may do what

[store]
folder = \"{store}\"

[signer]
socket = \"{socket}\"
root = \"root\"                        # the root key: for the signer alone
{uid}require_sandbox = false              # true: nothing is signed on a kernel without Landlock

# [limits]                           # docs/howto/serve.md lists them, with their defaults
# connections_per_client = 1000      # of one name in a certificate, at once

[log]
format = \"text\"                      # or \"json\"
filter = \"info\"

{users}"
    )
}

/// clients.toml, with the first client in it.
pub(super) const CLIENTS: &str = "\
# Who may connect, and what each may do. `sealwright init --client NAME --key KEY` adds an entry and the certificate
# that belongs to it. Front reads this again at SIGHUP (systemctl reload).
#
#   name           common name of the client's certificate
#   keys           names of keys that it may sign with; [\"*\"] is every key
#   administrator  true: it may make, import, renew, enable and disable keys
#   create_keys    endings of names of keys that it may have made by [copr_keygen]
#   obs            [\"sign\"]: it may have digests signed over obs-sign's protocol (docs/howto/obs.md)
#   revoked        serial numbers of its certificates that are no longer accepted
#   disabled       true: it may do nothing
#   weight         its share of the signer's time while others want it too: 1 (default) to 100

[[client]]
name = \"admin\"
keys = [\"*\"]
administrator = true
";

/// client.toml.
pub(super) fn client(url: &str) -> String {
    format!(
        "# Configuration of a client. It belongs into ~/.config/sealwright, with the files that it names beside it.
server = [\"{url}\"]
ca = \"ca.pem\"
certificate = \"client.pem\"
key = \"client.key\"
"
    )
}
