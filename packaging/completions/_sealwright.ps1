
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'sealwright' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'sealwright'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'sealwright' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Sign real packages in a fresh folder: shows the main job from start to end')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Create, list, show, export, import and change keys')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Take over the keys of a Copr keygen host or of obs-sign''s signd')
            [CompletionResult]::new('sign', 'sign', [CompletionResultType]::ParameterValue, 'Sign files')
            [CompletionResult]::new('resign', 'resign', [CompletionResultType]::ParameterValue, 'Sign every package of whole trees with a new key: can be stopped, goes on, and goes back')
            [CompletionResult]::new('verify', 'verify', [CompletionResultType]::ParameterValue, 'Check signatures and digests of files')
            [CompletionResult]::new('strip', 'strip', [CompletionResultType]::ParameterValue, 'Remove signatures')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Show what is signed, by whom, and how; nothing is checked')
            [CompletionResult]::new('obs-shadow', 'obs-shadow', [CompletionResultType]::ParameterValue, 'Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said')
            [CompletionResult]::new('obs-sign', 'obs-sign', [CompletionResultType]::ParameterValue, 'Sign with the command line of obs-sign''s sign, as does this program when it is called by that name')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Set up a server: authority, certificates, clients, root key, configuration')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Run a server: the process with the network and the process with the keys, started again when they end')
            [CompletionResult]::new('front', 'front', [CompletionResultType]::ParameterValue, 'The process with the network; started by serve, or by a service manager')
            [CompletionResult]::new('signer', 'signer', [CompletionResultType]::ParameterValue, 'The process that holds the keys; started by the others, with its socket as standard input')
            [CompletionResult]::new('token-keeper', 'token-keeper', [CompletionResultType]::ParameterValue, 'Keeps the processes running that work with tokens; started by the signer, with its socket as standard input')
            [CompletionResult]::new('token-worker', 'token-worker', [CompletionResultType]::ParameterValue, 'The process that loads the module of a token; started by the keeper, with its socket as standard input')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write man pages and shell completions')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'sealwright;demo' {
            [CompletionResult]::new('--packages', '--packages', [CompletionResultType]::ParameterName, 'Folder with packages to sign copies of')
            [CompletionResult]::new('--algorithm', '--algorithm', [CompletionResultType]::ParameterName, 'Algorithm of the key')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key. A revocation certificate is made with it and stored beside the store')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the keys')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show one key')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write the certificate (the public key)')
            [CompletionResult]::new('export-secret', 'export-secret', [CompletionResultType]::ParameterValue, 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token')
            [CompletionResult]::new('renew', 'renew', [CompletionResultType]::ParameterValue, 'Give a key a new period of validity: new self-signatures, with SHA-256')
            [CompletionResult]::new('disable', 'disable', [CompletionResultType]::ParameterValue, 'Let a key make no more signatures; takes effect before the next signature leaves')
            [CompletionResult]::new('enable', 'enable', [CompletionResultType]::ParameterValue, 'Undo `disable`')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'sealwright;key;create' {
            [CompletionResult]::new('--algorithm', '--algorithm', [CompletionResultType]::ParameterName, 'Key algorithm')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'OpenPGP user id, `Name <mail>`; default: the key''s name')
            [CompletionResult]::new('--expires', '--expires', [CompletionResultType]::ParameterName, 'Valid for: 90d, 12w, 18m, 2y, never')
            [CompletionResult]::new('--token', '--token', [CompletionResultType]::ParameterName, 'Make it on this token of the installation (tokens.toml beside the root key); it never leaves it')
            [CompletionResult]::new('--openpgp', '--openpgp', [CompletionResultType]::ParameterName, 'Version of the OpenPGP key. Every tool reads v4; v6 (RFC 9580) is for rpm 6 and other new ones: neither gpg nor rpm 4 can read it')
            [CompletionResult]::new('--obs-digest', '--obs-digest', [CompletionResultType]::ParameterName, 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--signing-subkey', '--signing-subkey', [CompletionResultType]::ParameterName, 'A subkey signs; the primary key only certifies. rpm 4.18 and older cannot verify such signatures')
            [CompletionResult]::new('--obs-digest-on-primary', '--obs-digest-on-primary', [CompletionResultType]::ParameterName, 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys')
            [CompletionResult]::new('--obs-project-keys', '--obs-project-keys', [CompletionResultType]::ParameterName, 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;list' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;show' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;export' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Encoding')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write to a new file instead of standard output (`-`)')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write to a new file instead of standard output (`-`)')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;export-secret' {
            [CompletionResult]::new('--gnupghome', '--gnupghome', [CompletionResultType]::ParameterName, 'The home of GnuPG that gets the keys; it must be there')
            [CompletionResult]::new('--phrases', '--phrases', [CompletionResultType]::ParameterName, 'The folder that gets a passphrase file for each key, by its name; it must be there')
            [CompletionResult]::new('--gpg', '--gpg', [CompletionResultType]::ParameterName, 'The gpg that takes them, of GnuPG 2')
            [CompletionResult]::new('--server-config', '--server-config', [CompletionResultType]::ParameterName, 'The server.toml that says where store and root key are; default: those of this user')
            [CompletionResult]::new('--root-key', '--root-key', [CompletionResultType]::ParameterName, 'The root key''s file, where it is not in the signer''s directory')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--secret-leaves-custody', '--secret-leaves-custody', [CompletionResultType]::ParameterName, 'Needed: whoever can read the home and the phrases then signs whatever they want with these keys, for ever, with no grant asked and no log entry made. It cannot be undone')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;import' {
            [CompletionResult]::new('--passphrase-file', '--passphrase-file', [CompletionResultType]::ParameterName, 'File whose first line is the passphrase')
            [CompletionResult]::new('--subkey', '--subkey', [CompletionResultType]::ParameterName, 'Fingerprint of the subkey to sign with; default: exactly the one that can sign now')
            [CompletionResult]::new('--obs-digest', '--obs-digest', [CompletionResultType]::ParameterName, 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later')
            [CompletionResult]::new('--token', '--token', [CompletionResultType]::ParameterName, 'Take over a key that is on this token of the installation (tokens.toml beside the root key): it gets a new OpenPGP certificate, and stays where it is')
            [CompletionResult]::new('--object', '--object', [CompletionResultType]::ParameterName, 'Label of the key on the token (CKA_LABEL)')
            [CompletionResult]::new('--id', '--id', [CompletionResultType]::ParameterName, 'Id of the key on the token (CKA_ID), in hexadecimal')
            [CompletionResult]::new('--uid', '--uid', [CompletionResultType]::ParameterName, 'OpenPGP user id of its certificate, `Name <mail>`; default: the key''s name')
            [CompletionResult]::new('--expires', '--expires', [CompletionResultType]::ParameterName, 'Its certificate is valid for: 90d, 12w, 18m, 2y, never (the default)')
            [CompletionResult]::new('--openpgp', '--openpgp', [CompletionResultType]::ParameterName, 'Version of its OpenPGP certificate: v4 (the default) or v6')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--obs-digest-on-primary', '--obs-digest-on-primary', [CompletionResultType]::ParameterName, 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys')
            [CompletionResult]::new('--obs-project-keys', '--obs-project-keys', [CompletionResultType]::ParameterName, 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;renew' {
            [CompletionResult]::new('--expires', '--expires', [CompletionResultType]::ParameterName, 'Valid from now for: 90d, 12w, 18m, 2y, never')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;disable' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;enable' {
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;key;help' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key. A revocation certificate is made with it and stored beside the store')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the keys')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show one key')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write the certificate (the public key)')
            [CompletionResult]::new('export-secret', 'export-secret', [CompletionResultType]::ParameterValue, 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token')
            [CompletionResult]::new('renew', 'renew', [CompletionResultType]::ParameterValue, 'Give a key a new period of validity: new self-signatures, with SHA-256')
            [CompletionResult]::new('disable', 'disable', [CompletionResultType]::ParameterValue, 'Let a key make no more signatures; takes effect before the next signature leaves')
            [CompletionResult]::new('enable', 'enable', [CompletionResultType]::ParameterValue, 'Undo `disable`')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'sealwright;key;help;create' {
            break
        }
        'sealwright;key;help;list' {
            break
        }
        'sealwright;key;help;show' {
            break
        }
        'sealwright;key;help;export' {
            break
        }
        'sealwright;key;help;export-secret' {
            break
        }
        'sealwright;key;help;import' {
            break
        }
        'sealwright;key;help;renew' {
            break
        }
        'sealwright;key;help;disable' {
            break
        }
        'sealwright;key;help;enable' {
            break
        }
        'sealwright;key;help;help' {
            break
        }
        'sealwright;import' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('copr-keygen', 'copr-keygen', [CompletionResultType]::ParameterValue, 'From the host of a Copr: each key that has a passphrase file, by the name of that file')
            [CompletionResult]::new('obs-signd', 'obs-signd', [CompletionResultType]::ParameterValue, 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'sealwright;import;copr-keygen' {
            [CompletionResult]::new('--gnupghome', '--gnupghome', [CompletionResultType]::ParameterName, 'The home of GnuPG; default: gnupg in the directory')
            [CompletionResult]::new('--phrases', '--phrases', [CompletionResultType]::ParameterName, 'The folder with one passphrase file a key; default: phrases in the directory')
            [CompletionResult]::new('--gpg', '--gpg', [CompletionResultType]::ParameterName, 'The gpg to ask, of GnuPG 2')
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Keys in hand at once')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Keys in hand at once')
            [CompletionResult]::new('--obs-digest', '--obs-digest', [CompletionResultType]::ParameterName, 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be done; ask the server only what is there, export and import nothing')
            [CompletionResult]::new('--obs-digest-on-primary', '--obs-digest-on-primary', [CompletionResultType]::ParameterName, 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys')
            [CompletionResult]::new('--obs-project-keys', '--obs-project-keys', [CompletionResultType]::ParameterName, 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;import;obs-signd' {
            [CompletionResult]::new('--sign-conf', '--sign-conf', [CompletionResultType]::ParameterName, 'The sign.conf of that signd')
            [CompletionResult]::new('--gnupghome', '--gnupghome', [CompletionResultType]::ParameterName, 'The home of GnuPG; default: what sign.conf says, else what its gpg takes by itself')
            [CompletionResult]::new('--gpg', '--gpg', [CompletionResultType]::ParameterName, 'The gpg to ask, of GnuPG 2; default: what sign.conf says, else gpg')
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Keys in hand at once')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Keys in hand at once')
            [CompletionResult]::new('--obs-digest', '--obs-digest', [CompletionResultType]::ParameterName, 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be done; ask the server only what is there, export and import nothing')
            [CompletionResult]::new('--obs-digest-on-primary', '--obs-digest-on-primary', [CompletionResultType]::ParameterName, 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys')
            [CompletionResult]::new('--obs-project-keys', '--obs-project-keys', [CompletionResultType]::ParameterName, 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;import;help' {
            [CompletionResult]::new('copr-keygen', 'copr-keygen', [CompletionResultType]::ParameterValue, 'From the host of a Copr: each key that has a passphrase file, by the name of that file')
            [CompletionResult]::new('obs-signd', 'obs-signd', [CompletionResultType]::ParameterValue, 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'sealwright;import;help;copr-keygen' {
            break
        }
        'sealwright;import;help;obs-signd' {
            break
        }
        'sealwright;import;help;help' {
            break
        }
        'sealwright;sign' {
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'Key to sign with: name, or fingerprint of the certificate or the signing subkey')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Format of the files; default: recognised by their content')
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write signed copies into this directory and leave the files as they are')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write signed copies into this directory and leave the files as they are')
            [CompletionResult]::new('--if-signed', '--if-signed', [CompletionResultType]::ParameterName, 'What to do with a file that is signed already')
            [CompletionResult]::new('--hash', '--hash', [CompletionResultType]::ParameterName, 'Hash algorithm of the signature')
            [CompletionResult]::new('--rpm-signature', '--rpm-signature', [CompletionResultType]::ParameterName, 'What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload')
            [CompletionResult]::new('--min-rpm', '--min-rpm', [CompletionResultType]::ParameterName, 'Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused')
            [CompletionResult]::new('--detached-output', '--detached-output', [CompletionResultType]::ParameterName, 'Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)')
            [CompletionResult]::new('--cleartext-output', '--cleartext-output', [CompletionResultType]::ParameterName, 'Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)')
            [CompletionResult]::new('--hardlinks', '--hardlinks', [CompletionResultType]::ParameterName, 'What becomes of a file''s other names; default: relink, but with --in-place refuse')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--files-from', '--files-from', [CompletionResultType]::ParameterName, 'Take further paths from this file, one a line; `-` is standard input')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Sign the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Sign the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Sign again even if exactly this signature is there')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Check everything, ask for no signature, write nothing')
            [CompletionResult]::new('--check-payload', '--check-payload', [CompletionResultType]::ParameterName, 'Read the payload and compare it with its digests before the header is signed')
            [CompletionResult]::new('--salt', '--salt', [CompletionResultType]::ParameterName, 'Put a random salt into each signature, so that two of one second differ')
            [CompletionResult]::new('--in-place', '--in-place', [CompletionResultType]::ParameterName, 'Write the changed bytes into the files themselves, for trees that nobody reads meanwhile')
            [CompletionResult]::new('-0', '-0', [CompletionResultType]::ParameterName, 'Names in --files-from end with a zero byte, as `find -print0` writes them')
            [CompletionResult]::new('--null', '--null', [CompletionResultType]::ParameterName, 'Names in --files-from end with a zero byte, as `find -print0` writes them')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;resign' {
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'Key to sign with: name, or fingerprint')
            [CompletionResult]::new('--key-map', '--key-map', [CompletionResultType]::ParameterName, 'Keys by directory: lines of DIRECTORY = KEY, relative to this file; the longest that a package is beneath counts')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Only packages that this key has signed: name, fingerprint, key id, or file of a certificate. All others stay as they are, and are counted')
            [CompletionResult]::new('--journal', '--journal', [CompletionResultType]::ParameterName, 'The journal by which a campaign goes on, and goes back; default: in the state directory, found by the same trees and keys')
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('--rate', '--rate', [CompletionResultType]::ParameterName, 'Signatures that are asked for in a second, at most')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Build a second tree in this directory, with links to unchanged files, and leave the first as it is')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Build a second tree in this directory, with links to unchanged files, and leave the first as it is')
            [CompletionResult]::new('--purge-list', '--purge-list', [CompletionResultType]::ParameterName, 'Write the paths of all changed files, relative to their tree, into this file: to purge caches')
            [CompletionResult]::new('--hash', '--hash', [CompletionResultType]::ParameterName, 'Hash algorithm of the signatures')
            [CompletionResult]::new('--rpm-signature', '--rpm-signature', [CompletionResultType]::ParameterName, 'What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload')
            [CompletionResult]::new('--min-rpm', '--min-rpm', [CompletionResultType]::ParameterName, 'Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused')
            [CompletionResult]::new('--detached-output', '--detached-output', [CompletionResultType]::ParameterName, 'Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)')
            [CompletionResult]::new('--cleartext-output', '--cleartext-output', [CompletionResultType]::ParameterName, 'Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)')
            [CompletionResult]::new('--hardlinks', '--hardlinks', [CompletionResultType]::ParameterName, 'What becomes of a file''s other names; default: relink, but with --in-place refuse')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Read headers and say what would be done; ask for nothing, write nothing')
            [CompletionResult]::new('--undo', '--undo', [CompletionResultType]::ParameterName, 'Put the old signatures back, from the journal')
            [CompletionResult]::new('--check-payload', '--check-payload', [CompletionResultType]::ParameterName, 'Read the payloads and compare them with their digests before headers are signed')
            [CompletionResult]::new('--salt', '--salt', [CompletionResultType]::ParameterName, 'Put a random salt into each signature, so that two of one second differ')
            [CompletionResult]::new('--in-place', '--in-place', [CompletionResultType]::ParameterName, 'Write the changed bytes into the files themselves, for trees that nobody reads meanwhile')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;verify' {
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'Check against the certificate of this key: name or fingerprint')
            [CompletionResult]::new('--keyring', '--keyring', [CompletionResultType]::ParameterName, 'Check against the certificates in this file, armored or binary; `-` is standard input')
            [CompletionResult]::new('--cert', '--cert', [CompletionResultType]::ParameterName, 'Check against this certificate, armored or binary')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig)')
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded')
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Check the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Check the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;strip' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Files in hand at once')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write stripped copies into this directory and leave the files as they are')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write stripped copies into this directory and leave the files as they are')
            [CompletionResult]::new('--files-from', '--files-from', [CompletionResultType]::ParameterName, 'Take further paths from this file, one a line; `-` is standard input')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Strip the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Strip the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Check everything, write nothing')
            [CompletionResult]::new('-0', '-0', [CompletionResultType]::ParameterName, 'Names in --files-from end with a zero byte, as `find -print0` writes them')
            [CompletionResult]::new('--null', '--null', [CompletionResultType]::ParameterName, 'Names in --files-from end with a zero byte, as `find -print0` writes them')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;inspect' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig)')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Look at the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--recursive', '--recursive', [CompletionResultType]::ParameterName, 'Look at the packages in directories, and in those beneath; links are not followed')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;obs-shadow' {
            [CompletionResult]::new('--listen', '--listen', [CompletionResultType]::ParameterName, 'Where clients ask; a port alone is one of 127.0.0.1')
            [CompletionResult]::new('--signd', '--signd', [CompletionResultType]::ParameterName, 'The signd that answers')
            [CompletionResult]::new('--ours', '--ours', [CompletionResultType]::ParameterName, 'The server of ours that is asked the same: an address of `[obs] listen`')
            [CompletionResult]::new('--allow', '--allow', [CompletionResultType]::ParameterName, 'Who may ask; several times. Needed unless it listens on a loopback address, where everybody may without it')
            [CompletionResult]::new('--every', '--every', [CompletionResultType]::ParameterName, 'Minutes between summaries')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;obs-sign' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;init' {
            [CompletionResult]::new('--directory', '--directory', [CompletionResultType]::ParameterName, 'Directory of the server. Default: /etc/sealwright for root, else ~/.config/sealwright/server')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Name or address under which clients reach the server; the first is the one they are told. Default: the host name, localhost, 127.0.0.1 and ::1')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'Port of the server')
            [CompletionResult]::new('--client', '--client', [CompletionResultType]::ParameterName, 'Issue a certificate for this client, and put what it needs into clients/NAME. Done again, it renews it')
            [CompletionResult]::new('--key', '--key', [CompletionResultType]::ParameterName, 'A key that the new client may sign with; `*` is every key. Given by name, also before the key is made')
            [CompletionResult]::new('--revoke', '--revoke', [CompletionResultType]::ParameterName, 'Accept none of the certificates any more that this client has by now')
            [CompletionResult]::new('--user-front', '--user-front', [CompletionResultType]::ParameterName, 'User that the network side (front) is to run as; root only, together with --user-signer')
            [CompletionResult]::new('--user-signer', '--user-signer', [CompletionResultType]::ParameterName, 'User that the signer is to run as')
            [CompletionResult]::new('--administrator', '--administrator', [CompletionResultType]::ParameterName, 'The new client may make, import, renew, enable and disable keys')
            [CompletionResult]::new('--renew-server', '--renew-server', [CompletionResultType]::ParameterName, 'Issue a new certificate for the server, over the same key, for the names that it has; --name adds one')
            [CompletionResult]::new('--only-names', '--only-names', [CompletionResultType]::ParameterName, 'With --renew-server: the names given by --name are all, and those before are gone')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;serve' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'The server''s configuration, as `sealwright init` makes it; default /etc/sealwright/server.toml for root, else server.toml in the directory sealwright/server of the user''s configuration')
            [CompletionResult]::new('--check-config', '--check-config', [CompletionResultType]::ParameterName, 'Reads everything that the configuration names, says what is wrong with it, and ends')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;front' {
            [CompletionResult]::new('--config', '--config', [CompletionResultType]::ParameterName, 'As for serve')
            [CompletionResult]::new('--parent', '--parent', [CompletionResultType]::ParameterName, 'Ends with the process of this number, which started it')
            [CompletionResult]::new('--supervised', '--supervised', [CompletionResultType]::ParameterName, 'Standard input is the channel to the supervisor')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;signer' {
            [CompletionResult]::new('--root', '--root', [CompletionResultType]::ParameterName, 'Directory of root key, data key and floors')
            [CompletionResult]::new('--front-uid', '--front-uid', [CompletionResultType]::ParameterName, 'User ids that may hold the other end of the socket, beside the signer''s own and root')
            [CompletionResult]::new('--front-user', '--front-user', [CompletionResultType]::ParameterName, 'The same by name')
            [CompletionResult]::new('--root-key', '--root-key', [CompletionResultType]::ParameterName, 'Reads the root key from this file, which it never makes')
            [CompletionResult]::new('--parent', '--parent', [CompletionResultType]::ParameterName, 'Ends with the process of this number, which started it')
            [CompletionResult]::new('--watched', '--watched', [CompletionResultType]::ParameterName, 'Says on standard output that it works, several times in so many seconds')
            [CompletionResult]::new('--require-sandbox', '--require-sandbox', [CompletionResultType]::ParameterName, 'Does not start on a kernel without Landlock')
            [CompletionResult]::new('--make-root-key', '--make-root-key', [CompletionResultType]::ParameterName, 'Makes a root key in the directory, if there is none, and ends')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;token-keeper' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;token-worker' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;generate' {
            [CompletionResult]::new('--man', '--man', [CompletionResultType]::ParameterName, 'Directory for the man pages (sealwright.1, sealwright-sign.1, ...)')
            [CompletionResult]::new('--completions', '--completions', [CompletionResultType]::ParameterName, 'Directory for the completions of every shell')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'One JSON object for each file or key on standard output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'sealwright;help' {
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Sign real packages in a fresh folder: shows the main job from start to end')
            [CompletionResult]::new('key', 'key', [CompletionResultType]::ParameterValue, 'Create, list, show, export, import and change keys')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Take over the keys of a Copr keygen host or of obs-sign''s signd')
            [CompletionResult]::new('sign', 'sign', [CompletionResultType]::ParameterValue, 'Sign files')
            [CompletionResult]::new('resign', 'resign', [CompletionResultType]::ParameterValue, 'Sign every package of whole trees with a new key: can be stopped, goes on, and goes back')
            [CompletionResult]::new('verify', 'verify', [CompletionResultType]::ParameterValue, 'Check signatures and digests of files')
            [CompletionResult]::new('strip', 'strip', [CompletionResultType]::ParameterValue, 'Remove signatures')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Show what is signed, by whom, and how; nothing is checked')
            [CompletionResult]::new('obs-shadow', 'obs-shadow', [CompletionResultType]::ParameterValue, 'Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said')
            [CompletionResult]::new('obs-sign', 'obs-sign', [CompletionResultType]::ParameterValue, 'Sign with the command line of obs-sign''s sign, as does this program when it is called by that name')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Set up a server: authority, certificates, clients, root key, configuration')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Run a server: the process with the network and the process with the keys, started again when they end')
            [CompletionResult]::new('front', 'front', [CompletionResultType]::ParameterValue, 'The process with the network; started by serve, or by a service manager')
            [CompletionResult]::new('signer', 'signer', [CompletionResultType]::ParameterValue, 'The process that holds the keys; started by the others, with its socket as standard input')
            [CompletionResult]::new('token-keeper', 'token-keeper', [CompletionResultType]::ParameterValue, 'Keeps the processes running that work with tokens; started by the signer, with its socket as standard input')
            [CompletionResult]::new('token-worker', 'token-worker', [CompletionResultType]::ParameterValue, 'The process that loads the module of a token; started by the keeper, with its socket as standard input')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Write man pages and shell completions')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'sealwright;help;demo' {
            break
        }
        'sealwright;help;key' {
            [CompletionResult]::new('create', 'create', [CompletionResultType]::ParameterValue, 'Make a key. A revocation certificate is made with it and stored beside the store')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the keys')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show one key')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Write the certificate (the public key)')
            [CompletionResult]::new('export-secret', 'export-secret', [CompletionResultType]::ParameterValue, 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token')
            [CompletionResult]::new('renew', 'renew', [CompletionResultType]::ParameterValue, 'Give a key a new period of validity: new self-signatures, with SHA-256')
            [CompletionResult]::new('disable', 'disable', [CompletionResultType]::ParameterValue, 'Let a key make no more signatures; takes effect before the next signature leaves')
            [CompletionResult]::new('enable', 'enable', [CompletionResultType]::ParameterValue, 'Undo `disable`')
            break
        }
        'sealwright;help;key;create' {
            break
        }
        'sealwright;help;key;list' {
            break
        }
        'sealwright;help;key;show' {
            break
        }
        'sealwright;help;key;export' {
            break
        }
        'sealwright;help;key;export-secret' {
            break
        }
        'sealwright;help;key;import' {
            break
        }
        'sealwright;help;key;renew' {
            break
        }
        'sealwright;help;key;disable' {
            break
        }
        'sealwright;help;key;enable' {
            break
        }
        'sealwright;help;import' {
            [CompletionResult]::new('copr-keygen', 'copr-keygen', [CompletionResultType]::ParameterValue, 'From the host of a Copr: each key that has a passphrase file, by the name of that file')
            [CompletionResult]::new('obs-signd', 'obs-signd', [CompletionResultType]::ParameterValue, 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says')
            break
        }
        'sealwright;help;import;copr-keygen' {
            break
        }
        'sealwright;help;import;obs-signd' {
            break
        }
        'sealwright;help;sign' {
            break
        }
        'sealwright;help;resign' {
            break
        }
        'sealwright;help;verify' {
            break
        }
        'sealwright;help;strip' {
            break
        }
        'sealwright;help;inspect' {
            break
        }
        'sealwright;help;obs-shadow' {
            break
        }
        'sealwright;help;obs-sign' {
            break
        }
        'sealwright;help;init' {
            break
        }
        'sealwright;help;serve' {
            break
        }
        'sealwright;help;front' {
            break
        }
        'sealwright;help;signer' {
            break
        }
        'sealwright;help;token-keeper' {
            break
        }
        'sealwright;help;token-worker' {
            break
        }
        'sealwright;help;generate' {
            break
        }
        'sealwright;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
