# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sealwright_global_optspecs
    string join \n json h/help V/version
end

function __fish_sealwright_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sealwright_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sealwright_using_subcommand
    set -l cmd (__fish_sealwright_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sealwright -n "__fish_sealwright_needs_command" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_needs_command" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "demo" -d 'Sign real packages in a fresh folder: shows the main job from start to end'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "key" -d 'Create, list, show, export, import and change keys'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "import" -d 'Take over the keys of a Copr keygen host or of obs-sign\'s signd'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "sign" -d 'Sign files'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "resign" -d 'Sign every package of whole trees with a new key: can be stopped, goes on, and goes back'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "verify" -d 'Check signatures and digests of files'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "strip" -d 'Remove signatures'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "inspect" -d 'Show what is signed, by whom, and how; nothing is checked'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "obs-shadow" -d 'Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "obs-sign" -d 'Sign with the command line of obs-sign\'s sign, as does this program when it is called by that name'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "init" -d 'Set up a server: authority, certificates, clients, root key, configuration'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "serve" -d 'Run a server: the process with the network and the process with the keys, started again when they end'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "front" -d 'The process with the network; started by serve, or by a service manager'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "signer" -d 'The process that holds the keys; started by the others, with its socket as standard input'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "token-keeper" -d 'Keeps the processes running that work with tokens; started by the signer, with its socket as standard input'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "token-worker" -d 'The process that loads the module of a token; started by the keeper, with its socket as standard input'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "generate" -d 'Write man pages and shell completions'
complete -c sealwright -n "__fish_sealwright_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealwright -n "__fish_sealwright_using_subcommand demo" -l packages -d 'Folder with packages to sign copies of' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand demo" -l algorithm -d 'Algorithm of the key' -r -f -a "rsa2048\t''
rsa3072\t''
rsa4096\t''
ed25519\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand demo" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand demo" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand demo" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "create" -d 'Make a key. A revocation certificate is made with it and stored beside the store'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "list" -d 'List the keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "show" -d 'Show one key'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "export" -d 'Write the certificate (the public key)'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "export-secret" -d 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "import" -d 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "renew" -d 'Give a key a new period of validity: new self-signatures, with SHA-256'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "disable" -d 'Let a key make no more signatures; takes effect before the next signature leaves'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "enable" -d 'Undo `disable`'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and not __fish_seen_subcommand_from create list show export export-secret import renew disable enable help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l algorithm -d 'Key algorithm' -r -f -a "rsa2048\t''
rsa3072\t''
rsa4096\t''
ed25519\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l uid -d 'OpenPGP user id, `Name <mail>`; default: the key\'s name' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l expires -d 'Valid for: 90d, 12w, 18m, 2y, never' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l token -d 'Make it on this token of the installation (tokens.toml beside the root key); it never leaves it' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l openpgp -d 'Version of the OpenPGP key. Every tool reads v4; v6 (RFC 9580) is for rpm 6 and other new ones: neither gpg nor rpm 4 can read it' -r -f -a "v4\t'RFC 4880'
v6\t'RFC 9580'"
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l obs-digest -d 'Let it also sign digests that clients finished, as obs-sign\'s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later' -r -f -a "sha2\t'SHA-256, SHA-384, SHA-512'
sha1\t'The same, and SHA-1, for which collisions can be computed'"
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l signing-subkey -d 'A subkey signs; the primary key only certifies. rpm 4.18 and older cannot verify such signatures'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l obs-digest-on-primary -d 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l obs-project-keys -d 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client\'s choice. For RSA keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from list" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from list" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from list" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from show" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from show" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from show" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -l format -d 'Encoding' -r -f -a "armor\t'ASCII armor, as rpm and apt take it'
binary\t'OpenPGP packets'"
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -s o -l output -d 'Write to a new file instead of standard output (`-`)' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l gnupghome -d 'The home of GnuPG that gets the keys; it must be there' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l phrases -d 'The folder that gets a passphrase file for each key, by its name; it must be there' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l gpg -d 'The gpg that takes them, of GnuPG 2' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l server-config -d 'The server.toml that says where store and root key are; default: those of this user' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l root-key -d 'The root key\'s file, where it is not in the signer\'s directory' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l secret-leaves-custody -d 'Needed: whoever can read the home and the phrases then signs whatever they want with these keys, for ever, with no grant asked and no log entry made. It cannot be undone'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from export-secret" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l passphrase-file -d 'File whose first line is the passphrase' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l subkey -d 'Fingerprint of the subkey to sign with; default: exactly the one that can sign now' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l obs-digest -d 'Let it also sign digests that clients finished, as obs-sign\'s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later' -r -f -a "sha2\t'SHA-256, SHA-384, SHA-512'
sha1\t'The same, and SHA-1, for which collisions can be computed'"
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l token -d 'Take over a key that is on this token of the installation (tokens.toml beside the root key): it gets a new OpenPGP certificate, and stays where it is' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l object -d 'Label of the key on the token (CKA_LABEL)' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l id -d 'Id of the key on the token (CKA_ID), in hexadecimal' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l uid -d 'OpenPGP user id of its certificate, `Name <mail>`; default: the key\'s name' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l expires -d 'Its certificate is valid for: 90d, 12w, 18m, 2y, never (the default)' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l openpgp -d 'Version of its OpenPGP certificate: v4 (the default) or v6' -r -f -a "v4\t'RFC 4880'
v6\t'RFC 9580'"
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l obs-digest-on-primary -d 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l obs-project-keys -d 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client\'s choice. For RSA keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from import" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from renew" -l expires -d 'Valid from now for: 90d, 12w, 18m, 2y, never' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from renew" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from renew" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from renew" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from renew" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from renew" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from disable" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from disable" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from disable" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from disable" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from disable" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from enable" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from enable" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from enable" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from enable" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from enable" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a key. A revocation certificate is made with it and stored beside the store'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one key'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write the certificate (the public key)'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "export-secret" -d 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "import" -d 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "renew" -d 'Give a key a new period of validity: new self-signatures, with SHA-256'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "disable" -d 'Let a key make no more signatures; takes effect before the next signature leaves'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "enable" -d 'Undo `disable`'
complete -c sealwright -n "__fish_sealwright_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and not __fish_seen_subcommand_from copr-keygen obs-signd help" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and not __fish_seen_subcommand_from copr-keygen obs-signd help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and not __fish_seen_subcommand_from copr-keygen obs-signd help" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and not __fish_seen_subcommand_from copr-keygen obs-signd help" -f -a "copr-keygen" -d 'From the host of a Copr: each key that has a passphrase file, by the name of that file'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and not __fish_seen_subcommand_from copr-keygen obs-signd help" -f -a "obs-signd" -d 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and not __fish_seen_subcommand_from copr-keygen obs-signd help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l gnupghome -d 'The home of GnuPG; default: gnupg in the directory' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l phrases -d 'The folder with one passphrase file a key; default: phrases in the directory' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l gpg -d 'The gpg to ask, of GnuPG 2' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -s j -l jobs -d 'Keys in hand at once' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l obs-digest -d 'Let it also sign digests that clients finished, as obs-sign\'s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later' -r -f -a "sha2\t'SHA-256, SHA-384, SHA-512'
sha1\t'The same, and SHA-1, for which collisions can be computed'"
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l dry-run -d 'Say what would be done; ask the server only what is there, export and import nothing'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l obs-digest-on-primary -d 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l obs-project-keys -d 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client\'s choice. For RSA keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from copr-keygen" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l sign-conf -d 'The sign.conf of that signd' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l gnupghome -d 'The home of GnuPG; default: what sign.conf says, else what its gpg takes by itself' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l gpg -d 'The gpg to ask, of GnuPG 2; default: what sign.conf says, else gpg' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -s j -l jobs -d 'Keys in hand at once' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l obs-digest -d 'Let it also sign digests that clients finished, as obs-sign\'s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later' -r -f -a "sha2\t'SHA-256, SHA-384, SHA-512'
sha1\t'The same, and SHA-1, for which collisions can be computed'"
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l dry-run -d 'Say what would be done; ask the server only what is there, export and import nothing'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l obs-digest-on-primary -d 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l obs-project-keys -d 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client\'s choice. For RSA keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from obs-signd" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "copr-keygen" -d 'From the host of a Copr: each key that has a passphrase file, by the name of that file'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "obs-signd" -d 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says'
complete -c sealwright -n "__fish_sealwright_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l key -d 'Key to sign with: name, or fingerprint of the certificate or the signing subkey' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l format -d 'Format of the files; default: recognised by their content' -r -f -a "rpm\t'RPM packages, binary and source, formats 3 to 6'
detached\t'any file, with an OpenPGP signature beside it (.asc, .sig)'
cleartext\t'a text, with an OpenPGP signature after it in one file (clear-signed, FILE.asc)'
apt-release\t'Release of an apt repository, with InRelease and Release.gpg beside it, both or neither'"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -s j -l jobs -d 'Files in hand at once' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -s o -l output -d 'Write signed copies into this directory and leave the files as they are' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l if-signed -d 'What to do with a file that is signed already' -r -f -a "replace\t'Only the new signature remains'
skip\t'Leave the file as it is'
add\t'Keep other keys\' signatures'
refuse\t'Fail'"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l hash -d 'Hash algorithm of the signature' -r -f -a "sha256\t'SHA-256'
sha384\t'SHA-384'
sha512\t'SHA-512'"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l rpm-signature -d 'What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload' -r -f -a "auto\t''
header\t''
header+payload\t''
both\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l min-rpm -d 'Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l detached-output -d 'Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)' -r -f -a "asc\t''
sig\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l cleartext-output -d 'Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)' -r -f -a "asc\t''
in-place\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l hardlinks -d 'What becomes of a file\'s other names; default: relink, but with --in-place refuse' -r -f -a "relink\t'Names in this call stay names of one file'
break\t'Each name becomes a file of its own'
refuse\t'Leave files with other names alone, and say so'"
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l files-from -d 'Take further paths from this file, one a line; `-` is standard input' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -s r -l recursive -d 'Sign the packages in directories, and in those beneath; links are not followed'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l force -d 'Sign again even if exactly this signature is there'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l dry-run -d 'Check everything, ask for no signature, write nothing'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l check-payload -d 'Read the payload and compare it with its digests before the header is signed'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l salt -d 'Put a random salt into each signature, so that two of one second differ'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l in-place -d 'Write the changed bytes into the files themselves, for trees that nobody reads meanwhile'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -s 0 -l null -d 'Names in --files-from end with a zero byte, as `find -print0` writes them'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand sign" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l key -d 'Key to sign with: name, or fingerprint' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l key-map -d 'Keys by directory: lines of DIRECTORY = KEY, relative to this file; the longest that a package is beneath counts' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l from -d 'Only packages that this key has signed: name, fingerprint, key id, or file of a certificate. All others stay as they are, and are counted' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l journal -d 'The journal by which a campaign goes on, and goes back; default: in the state directory, found by the same trees and keys' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -s j -l jobs -d 'Files in hand at once' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l rate -d 'Signatures that are asked for in a second, at most' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -s o -l output -d 'Build a second tree in this directory, with links to unchanged files, and leave the first as it is' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l purge-list -d 'Write the paths of all changed files, relative to their tree, into this file: to purge caches' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l hash -d 'Hash algorithm of the signatures' -r -f -a "sha256\t'SHA-256'
sha384\t'SHA-384'
sha512\t'SHA-512'"
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l rpm-signature -d 'What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload' -r -f -a "auto\t''
header\t''
header+payload\t''
both\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l min-rpm -d 'Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l detached-output -d 'Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)' -r -f -a "asc\t''
sig\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l cleartext-output -d 'Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)' -r -f -a "asc\t''
in-place\t''"
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l hardlinks -d 'What becomes of a file\'s other names; default: relink, but with --in-place refuse' -r -f -a "relink\t'Names in this call stay names of one file'
break\t'Each name becomes a file of its own'
refuse\t'Leave files with other names alone, and say so'"
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l dry-run -d 'Read headers and say what would be done; ask for nothing, write nothing'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l undo -d 'Put the old signatures back, from the journal'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l check-payload -d 'Read the payloads and compare them with their digests before headers are signed'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l salt -d 'Put a random salt into each signature, so that two of one second differ'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l in-place -d 'Write the changed bytes into the files themselves, for trees that nobody reads meanwhile'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand resign" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l key -d 'Check against the certificate of this key: name or fingerprint' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l keyring -d 'Check against the certificates in this file, armored or binary; `-` is standard input' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l cert -d 'Check against this certificate, armored or binary' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l format -d 'Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig)' -r -f -a "rpm\t'RPM packages, binary and source, formats 3 to 6'
detached\t'any file, with an OpenPGP signature beside it (.asc, .sig)'
cleartext\t'a text, with an OpenPGP signature after it in one file (clear-signed, FILE.asc)'
apt-release\t'Release of an apt repository, with InRelease and Release.gpg beside it, both or neither'"
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -s j -l jobs -d 'Files in hand at once' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l server -d 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l config -d 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -s r -l recursive -d 'Check the packages in directories, and in those beneath; links are not followed'
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand verify" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -s j -l jobs -d 'Files in hand at once' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -s o -l output -d 'Write stripped copies into this directory and leave the files as they are' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -l files-from -d 'Take further paths from this file, one a line; `-` is standard input' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -s r -l recursive -d 'Strip the packages in directories, and in those beneath; links are not followed'
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -l dry-run -d 'Check everything, write nothing'
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -s 0 -l null -d 'Names in --files-from end with a zero byte, as `find -print0` writes them'
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand strip" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand inspect" -l format -d 'Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig)' -r -f -a "rpm\t'RPM packages, binary and source, formats 3 to 6'
detached\t'any file, with an OpenPGP signature beside it (.asc, .sig)'
cleartext\t'a text, with an OpenPGP signature after it in one file (clear-signed, FILE.asc)'
apt-release\t'Release of an apt repository, with InRelease and Release.gpg beside it, both or neither'"
complete -c sealwright -n "__fish_sealwright_using_subcommand inspect" -s r -l recursive -d 'Look at the packages in directories, and in those beneath; links are not followed'
complete -c sealwright -n "__fish_sealwright_using_subcommand inspect" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -l listen -d 'Where clients ask; a port alone is one of 127.0.0.1' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -l signd -d 'The signd that answers' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -l ours -d 'The server of ours that is asked the same: an address of `[obs] listen`' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -l allow -d 'Who may ask; several times. Needed unless it listens on a loopback address, where everybody may without it' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -l every -d 'Minutes between summaries' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-shadow" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-sign" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand obs-sign" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l directory -d 'Directory of the server. Default: /etc/sealwright for root, else ~/.config/sealwright/server' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l name -d 'Name or address under which clients reach the server; the first is the one they are told. Default: the host name, localhost, 127.0.0.1 and ::1' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l port -d 'Port of the server' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l client -d 'Issue a certificate for this client, and put what it needs into clients/NAME. Done again, it renews it' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l key -d 'A key that the new client may sign with; `*` is every key. Given by name, also before the key is made' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l revoke -d 'Accept none of the certificates any more that this client has by now' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l user-front -d 'User that the network side (front) is to run as; root only, together with --user-signer' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l user-signer -d 'User that the signer is to run as' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l administrator -d 'The new client may make, import, renew, enable and disable keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l renew-server -d 'Issue a new certificate for the server, over the same key, for the names that it has; --name adds one'
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l only-names -d 'With --renew-server: the names given by --name are all, and those before are gone'
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sealwright -n "__fish_sealwright_using_subcommand init" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand serve" -l config -d 'The server\'s configuration, as `sealwright init` makes it; default /etc/sealwright/server.toml for root, else server.toml in the directory sealwright/server of the user\'s configuration' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand serve" -l check-config -d 'Reads everything that the configuration names, says what is wrong with it, and ends'
complete -c sealwright -n "__fish_sealwright_using_subcommand serve" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand serve" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand serve" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand front" -l config -d 'As for serve' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand front" -l parent -d 'Ends with the process of this number, which started it' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand front" -l supervised -d 'Standard input is the channel to the supervisor'
complete -c sealwright -n "__fish_sealwright_using_subcommand front" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand front" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand front" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l root -d 'Directory of root key, data key and floors' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l front-uid -d 'User ids that may hold the other end of the socket, beside the signer\'s own and root' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l front-user -d 'The same by name' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l root-key -d 'Reads the root key from this file, which it never makes' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l parent -d 'Ends with the process of this number, which started it' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l watched -d 'Says on standard output that it works, several times in so many seconds' -r
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l require-sandbox -d 'Does not start on a kernel without Landlock'
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l make-root-key -d 'Makes a root key in the directory, if there is none, and ends'
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand signer" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand token-keeper" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand token-keeper" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand token-keeper" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand token-worker" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand token-worker" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand token-worker" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand generate" -l man -d 'Directory for the man pages (sealwright.1, sealwright-sign.1, ...)' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand generate" -l completions -d 'Directory for the completions of every shell' -r -F
complete -c sealwright -n "__fish_sealwright_using_subcommand generate" -l json -d 'One JSON object for each file or key on standard output'
complete -c sealwright -n "__fish_sealwright_using_subcommand generate" -s h -l help -d 'Print help'
complete -c sealwright -n "__fish_sealwright_using_subcommand generate" -s V -l version -d 'Print version'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "demo" -d 'Sign real packages in a fresh folder: shows the main job from start to end'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "key" -d 'Create, list, show, export, import and change keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "import" -d 'Take over the keys of a Copr keygen host or of obs-sign\'s signd'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "sign" -d 'Sign files'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "resign" -d 'Sign every package of whole trees with a new key: can be stopped, goes on, and goes back'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "verify" -d 'Check signatures and digests of files'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "strip" -d 'Remove signatures'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "inspect" -d 'Show what is signed, by whom, and how; nothing is checked'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "obs-shadow" -d 'Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "obs-sign" -d 'Sign with the command line of obs-sign\'s sign, as does this program when it is called by that name'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "init" -d 'Set up a server: authority, certificates, clients, root key, configuration'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "serve" -d 'Run a server: the process with the network and the process with the keys, started again when they end'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "front" -d 'The process with the network; started by serve, or by a service manager'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "signer" -d 'The process that holds the keys; started by the others, with its socket as standard input'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "token-keeper" -d 'Keeps the processes running that work with tokens; started by the signer, with its socket as standard input'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "token-worker" -d 'The process that loads the module of a token; started by the keeper, with its socket as standard input'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "generate" -d 'Write man pages and shell completions'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and not __fish_seen_subcommand_from demo key import sign resign verify strip inspect obs-shadow obs-sign init serve front signer token-keeper token-worker generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "create" -d 'Make a key. A revocation certificate is made with it and stored beside the store'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "list" -d 'List the keys'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "show" -d 'Show one key'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "export" -d 'Write the certificate (the public key)'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "export-secret" -d 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "import" -d 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "renew" -d 'Give a key a new period of validity: new self-signatures, with SHA-256'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "disable" -d 'Let a key make no more signatures; takes effect before the next signature leaves'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "enable" -d 'Undo `disable`'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from import" -f -a "copr-keygen" -d 'From the host of a Copr: each key that has a passphrase file, by the name of that file'
complete -c sealwright -n "__fish_sealwright_using_subcommand help; and __fish_seen_subcommand_from import" -f -a "obs-signd" -d 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says'
