
use builtin;
use str;

set edit:completion:arg-completer[sealwright] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'sealwright'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'sealwright'= {
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand demo 'Sign real packages in a fresh folder: shows the main job from start to end'
            cand key 'Create, list, show, export, import and change keys'
            cand import 'Take over the keys of a Copr keygen host or of obs-sign''s signd'
            cand sign 'Sign files'
            cand resign 'Sign every package of whole trees with a new key: can be stopped, goes on, and goes back'
            cand verify 'Check signatures and digests of files'
            cand strip 'Remove signatures'
            cand inspect 'Show what is signed, by whom, and how; nothing is checked'
            cand obs-shadow 'Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said'
            cand obs-sign 'Sign with the command line of obs-sign''s sign, as does this program when it is called by that name'
            cand init 'Set up a server: authority, certificates, clients, root key, configuration'
            cand serve 'Run a server: the process with the network and the process with the keys, started again when they end'
            cand front 'The process with the network; started by serve, or by a service manager'
            cand signer 'The process that holds the keys; started by the others, with its socket as standard input'
            cand token-keeper 'Keeps the processes running that work with tokens; started by the signer, with its socket as standard input'
            cand token-worker 'The process that loads the module of a token; started by the keeper, with its socket as standard input'
            cand generate 'Write man pages and shell completions'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'sealwright;demo'= {
            cand --packages 'Folder with packages to sign copies of'
            cand --algorithm 'Algorithm of the key'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key'= {
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand create 'Make a key. A revocation certificate is made with it and stored beside the store'
            cand list 'List the keys'
            cand show 'Show one key'
            cand export 'Write the certificate (the public key)'
            cand export-secret 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd'
            cand import 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token'
            cand renew 'Give a key a new period of validity: new self-signatures, with SHA-256'
            cand disable 'Let a key make no more signatures; takes effect before the next signature leaves'
            cand enable 'Undo `disable`'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'sealwright;key;create'= {
            cand --algorithm 'Key algorithm'
            cand --uid 'OpenPGP user id, `Name <mail>`; default: the key''s name'
            cand --expires 'Valid for: 90d, 12w, 18m, 2y, never'
            cand --token 'Make it on this token of the installation (tokens.toml beside the root key); it never leaves it'
            cand --openpgp 'Version of the OpenPGP key. Every tool reads v4; v6 (RFC 9580) is for rpm 6 and other new ones: neither gpg nor rpm 4 can read it'
            cand --obs-digest 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --signing-subkey 'A subkey signs; the primary key only certifies. rpm 4.18 and older cannot verify such signatures'
            cand --obs-digest-on-primary 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
            cand --obs-project-keys 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;list'= {
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;show'= {
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;export'= {
            cand --format 'Encoding'
            cand -o 'Write to a new file instead of standard output (`-`)'
            cand --output 'Write to a new file instead of standard output (`-`)'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;export-secret'= {
            cand --gnupghome 'The home of GnuPG that gets the keys; it must be there'
            cand --phrases 'The folder that gets a passphrase file for each key, by its name; it must be there'
            cand --gpg 'The gpg that takes them, of GnuPG 2'
            cand --server-config 'The server.toml that says where store and root key are; default: those of this user'
            cand --root-key 'The root key''s file, where it is not in the signer''s directory'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --secret-leaves-custody 'Needed: whoever can read the home and the phrases then signs whatever they want with these keys, for ever, with no grant asked and no log entry made. It cannot be undone'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;import'= {
            cand --passphrase-file 'File whose first line is the passphrase'
            cand --subkey 'Fingerprint of the subkey to sign with; default: exactly the one that can sign now'
            cand --obs-digest 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later'
            cand --token 'Take over a key that is on this token of the installation (tokens.toml beside the root key): it gets a new OpenPGP certificate, and stays where it is'
            cand --object 'Label of the key on the token (CKA_LABEL)'
            cand --id 'Id of the key on the token (CKA_ID), in hexadecimal'
            cand --uid 'OpenPGP user id of its certificate, `Name <mail>`; default: the key''s name'
            cand --expires 'Its certificate is valid for: 90d, 12w, 18m, 2y, never (the default)'
            cand --openpgp 'Version of its OpenPGP certificate: v4 (the default) or v6'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --obs-digest-on-primary 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
            cand --obs-project-keys 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;renew'= {
            cand --expires 'Valid from now for: 90d, 12w, 18m, 2y, never'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;disable'= {
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;enable'= {
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;key;help'= {
            cand create 'Make a key. A revocation certificate is made with it and stored beside the store'
            cand list 'List the keys'
            cand show 'Show one key'
            cand export 'Write the certificate (the public key)'
            cand export-secret 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd'
            cand import 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token'
            cand renew 'Give a key a new period of validity: new self-signatures, with SHA-256'
            cand disable 'Let a key make no more signatures; takes effect before the next signature leaves'
            cand enable 'Undo `disable`'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'sealwright;key;help;create'= {
        }
        &'sealwright;key;help;list'= {
        }
        &'sealwright;key;help;show'= {
        }
        &'sealwright;key;help;export'= {
        }
        &'sealwright;key;help;export-secret'= {
        }
        &'sealwright;key;help;import'= {
        }
        &'sealwright;key;help;renew'= {
        }
        &'sealwright;key;help;disable'= {
        }
        &'sealwright;key;help;enable'= {
        }
        &'sealwright;key;help;help'= {
        }
        &'sealwright;import'= {
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand copr-keygen 'From the host of a Copr: each key that has a passphrase file, by the name of that file'
            cand obs-signd 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'sealwright;import;copr-keygen'= {
            cand --gnupghome 'The home of GnuPG; default: gnupg in the directory'
            cand --phrases 'The folder with one passphrase file a key; default: phrases in the directory'
            cand --gpg 'The gpg to ask, of GnuPG 2'
            cand -j 'Keys in hand at once'
            cand --jobs 'Keys in hand at once'
            cand --obs-digest 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --dry-run 'Say what would be done; ask the server only what is there, export and import nothing'
            cand --obs-digest-on-primary 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
            cand --obs-project-keys 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;import;obs-signd'= {
            cand --sign-conf 'The sign.conf of that signd'
            cand --gnupghome 'The home of GnuPG; default: what sign.conf says, else what its gpg takes by itself'
            cand --gpg 'The gpg to ask, of GnuPG 2; default: what sign.conf says, else gpg'
            cand -j 'Keys in hand at once'
            cand --jobs 'Keys in hand at once'
            cand --obs-digest 'Let it also sign digests that clients finished, as obs-sign''s protocol sends them; =sha1 allows digests of SHA-1 too. It is full power over what the key can do, since nobody sees what a digest says; it is sealed with the key, and cannot be added later'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --dry-run 'Say what would be done; ask the server only what is there, export and import nothing'
            cand --obs-digest-on-primary 'Let a primary key sign them, not a subkey: every client that may have a digest signed can then certify user ids and bind subkeys of its own. For keys whose verifiers know no subkeys'
            cand --obs-project-keys 'Let it open project keys, which clients keep encrypted to it, and sign with them; and make such keys, certifying user ids of the client''s choice. For RSA keys'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;import;help'= {
            cand copr-keygen 'From the host of a Copr: each key that has a passphrase file, by the name of that file'
            cand obs-signd 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'sealwright;import;help;copr-keygen'= {
        }
        &'sealwright;import;help;obs-signd'= {
        }
        &'sealwright;import;help;help'= {
        }
        &'sealwright;sign'= {
            cand --key 'Key to sign with: name, or fingerprint of the certificate or the signing subkey'
            cand --format 'Format of the files; default: recognised by their content'
            cand -j 'Files in hand at once'
            cand --jobs 'Files in hand at once'
            cand -o 'Write signed copies into this directory and leave the files as they are'
            cand --output 'Write signed copies into this directory and leave the files as they are'
            cand --if-signed 'What to do with a file that is signed already'
            cand --hash 'Hash algorithm of the signature'
            cand --rpm-signature 'What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload'
            cand --min-rpm 'Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused'
            cand --detached-output 'Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)'
            cand --cleartext-output 'Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)'
            cand --hardlinks 'What becomes of a file''s other names; default: relink, but with --in-place refuse'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --files-from 'Take further paths from this file, one a line; `-` is standard input'
            cand -r 'Sign the packages in directories, and in those beneath; links are not followed'
            cand --recursive 'Sign the packages in directories, and in those beneath; links are not followed'
            cand --force 'Sign again even if exactly this signature is there'
            cand --dry-run 'Check everything, ask for no signature, write nothing'
            cand --check-payload 'Read the payload and compare it with its digests before the header is signed'
            cand --salt 'Put a random salt into each signature, so that two of one second differ'
            cand --in-place 'Write the changed bytes into the files themselves, for trees that nobody reads meanwhile'
            cand -0 'Names in --files-from end with a zero byte, as `find -print0` writes them'
            cand --null 'Names in --files-from end with a zero byte, as `find -print0` writes them'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;resign'= {
            cand --key 'Key to sign with: name, or fingerprint'
            cand --key-map 'Keys by directory: lines of DIRECTORY = KEY, relative to this file; the longest that a package is beneath counts'
            cand --from 'Only packages that this key has signed: name, fingerprint, key id, or file of a certificate. All others stay as they are, and are counted'
            cand --journal 'The journal by which a campaign goes on, and goes back; default: in the state directory, found by the same trees and keys'
            cand -j 'Files in hand at once'
            cand --jobs 'Files in hand at once'
            cand --rate 'Signatures that are asked for in a second, at most'
            cand -o 'Build a second tree in this directory, with links to unchanged files, and leave the first as it is'
            cand --output 'Build a second tree in this directory, with links to unchanged files, and leave the first as it is'
            cand --purge-list 'Write the paths of all changed files, relative to their tree, into this file: to purge caches'
            cand --hash 'Hash algorithm of the signatures'
            cand --rpm-signature 'What to sign in an RPM package: auto signs the header, and header and payload too if the header has no digest of the payload'
            cand --min-rpm 'Oldest rpm that must read the signed package, 4.4 or later with both numbers, as in 4.14: what its limits do not allow is refused'
            cand --detached-output 'Kind of detached OpenPGP signature: asc (text with armor) or sig (binary)'
            cand --cleartext-output 'Where a clear-signed document goes: asc (a new file, FILE.asc) or in-place (FILE itself becomes it)'
            cand --hardlinks 'What becomes of a file''s other names; default: relink, but with --in-place refuse'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand --dry-run 'Read headers and say what would be done; ask for nothing, write nothing'
            cand --undo 'Put the old signatures back, from the journal'
            cand --check-payload 'Read the payloads and compare them with their digests before headers are signed'
            cand --salt 'Put a random salt into each signature, so that two of one second differ'
            cand --in-place 'Write the changed bytes into the files themselves, for trees that nobody reads meanwhile'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;verify'= {
            cand --key 'Check against the certificate of this key: name or fingerprint'
            cand --keyring 'Check against the certificates in this file, armored or binary; `-` is standard input'
            cand --cert 'Check against this certificate, armored or binary'
            cand --format 'Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig)'
            cand -j 'Files in hand at once'
            cand --jobs 'Files in hand at once'
            cand --server 'Server to ask, as https://HOST:PORT (several with commas), or `embedded` for the keys of this user. Default: SEALWRIGHT_SERVER, else what client.toml says, else embedded'
            cand --config 'Configuration of the client: server, certificates. Default: SEALWRIGHT_CLIENT_CONFIG, else ~/.config/sealwright/client.toml, else /etc/sealwright/client.toml'
            cand -r 'Check the packages in directories, and in those beneath; links are not followed'
            cand --recursive 'Check the packages in directories, and in those beneath; links are not followed'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;strip'= {
            cand -j 'Files in hand at once'
            cand --jobs 'Files in hand at once'
            cand -o 'Write stripped copies into this directory and leave the files as they are'
            cand --output 'Write stripped copies into this directory and leave the files as they are'
            cand --files-from 'Take further paths from this file, one a line; `-` is standard input'
            cand -r 'Strip the packages in directories, and in those beneath; links are not followed'
            cand --recursive 'Strip the packages in directories, and in those beneath; links are not followed'
            cand --dry-run 'Check everything, write nothing'
            cand -0 'Names in --files-from end with a zero byte, as `find -print0` writes them'
            cand --null 'Names in --files-from end with a zero byte, as `find -print0` writes them'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;inspect'= {
            cand --format 'Format of the files; default: recognised by their content, else a signature beside them (.asc, .sig)'
            cand -r 'Look at the packages in directories, and in those beneath; links are not followed'
            cand --recursive 'Look at the packages in directories, and in those beneath; links are not followed'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;obs-shadow'= {
            cand --listen 'Where clients ask; a port alone is one of 127.0.0.1'
            cand --signd 'The signd that answers'
            cand --ours 'The server of ours that is asked the same: an address of `[obs] listen`'
            cand --allow 'Who may ask; several times. Needed unless it listens on a loopback address, where everybody may without it'
            cand --every 'Minutes between summaries'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;obs-sign'= {
            cand --json 'One JSON object for each file or key on standard output'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;init'= {
            cand --directory 'Directory of the server. Default: /etc/sealwright for root, else ~/.config/sealwright/server'
            cand --name 'Name or address under which clients reach the server; the first is the one they are told. Default: the host name, localhost, 127.0.0.1 and ::1'
            cand --port 'Port of the server'
            cand --client 'Issue a certificate for this client, and put what it needs into clients/NAME. Done again, it renews it'
            cand --key 'A key that the new client may sign with; `*` is every key. Given by name, also before the key is made'
            cand --revoke 'Accept none of the certificates any more that this client has by now'
            cand --user-front 'User that the network side (front) is to run as; root only, together with --user-signer'
            cand --user-signer 'User that the signer is to run as'
            cand --administrator 'The new client may make, import, renew, enable and disable keys'
            cand --renew-server 'Issue a new certificate for the server, over the same key, for the names that it has; --name adds one'
            cand --only-names 'With --renew-server: the names given by --name are all, and those before are gone'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;serve'= {
            cand --config 'The server''s configuration, as `sealwright init` makes it; default /etc/sealwright/server.toml for root, else server.toml in the directory sealwright/server of the user''s configuration'
            cand --check-config 'Reads everything that the configuration names, says what is wrong with it, and ends'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;front'= {
            cand --config 'As for serve'
            cand --parent 'Ends with the process of this number, which started it'
            cand --supervised 'Standard input is the channel to the supervisor'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;signer'= {
            cand --root 'Directory of root key, data key and floors'
            cand --front-uid 'User ids that may hold the other end of the socket, beside the signer''s own and root'
            cand --front-user 'The same by name'
            cand --root-key 'Reads the root key from this file, which it never makes'
            cand --parent 'Ends with the process of this number, which started it'
            cand --watched 'Says on standard output that it works, several times in so many seconds'
            cand --require-sandbox 'Does not start on a kernel without Landlock'
            cand --make-root-key 'Makes a root key in the directory, if there is none, and ends'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;token-keeper'= {
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;token-worker'= {
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;generate'= {
            cand --man 'Directory for the man pages (sealwright.1, sealwright-sign.1, ...)'
            cand --completions 'Directory for the completions of every shell'
            cand --json 'One JSON object for each file or key on standard output'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'sealwright;help'= {
            cand demo 'Sign real packages in a fresh folder: shows the main job from start to end'
            cand key 'Create, list, show, export, import and change keys'
            cand import 'Take over the keys of a Copr keygen host or of obs-sign''s signd'
            cand sign 'Sign files'
            cand resign 'Sign every package of whole trees with a new key: can be stopped, goes on, and goes back'
            cand verify 'Check signatures and digests of files'
            cand strip 'Remove signatures'
            cand inspect 'Show what is signed, by whom, and how; nothing is checked'
            cand obs-shadow 'Stand before a signd of obs-sign: clients get its answers, a server of ours is asked the same, and what differs is said'
            cand obs-sign 'Sign with the command line of obs-sign''s sign, as does this program when it is called by that name'
            cand init 'Set up a server: authority, certificates, clients, root key, configuration'
            cand serve 'Run a server: the process with the network and the process with the keys, started again when they end'
            cand front 'The process with the network; started by serve, or by a service manager'
            cand signer 'The process that holds the keys; started by the others, with its socket as standard input'
            cand token-keeper 'Keeps the processes running that work with tokens; started by the signer, with its socket as standard input'
            cand token-worker 'The process that loads the module of a token; started by the keeper, with its socket as standard input'
            cand generate 'Write man pages and shell completions'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'sealwright;help;demo'= {
        }
        &'sealwright;help;key'= {
            cand create 'Make a key. A revocation certificate is made with it and stored beside the store'
            cand list 'List the keys'
            cand show 'Show one key'
            cand export 'Write the certificate (the public key)'
            cand export-secret 'Give secret keys back to a home of GnuPG, on the machine of root key and store: the way back to signd'
            cand import 'Take in an OpenPGP secret key, which travels encrypted to the signer process, or a key that is on a token'
            cand renew 'Give a key a new period of validity: new self-signatures, with SHA-256'
            cand disable 'Let a key make no more signatures; takes effect before the next signature leaves'
            cand enable 'Undo `disable`'
        }
        &'sealwright;help;key;create'= {
        }
        &'sealwright;help;key;list'= {
        }
        &'sealwright;help;key;show'= {
        }
        &'sealwright;help;key;export'= {
        }
        &'sealwright;help;key;export-secret'= {
        }
        &'sealwright;help;key;import'= {
        }
        &'sealwright;help;key;renew'= {
        }
        &'sealwright;help;key;disable'= {
        }
        &'sealwright;help;key;enable'= {
        }
        &'sealwright;help;import'= {
            cand copr-keygen 'From the host of a Copr: each key that has a passphrase file, by the name of that file'
            cand obs-signd 'From a signd of obs-sign: keys, and as a text for server.toml what else its sign.conf says'
        }
        &'sealwright;help;import;copr-keygen'= {
        }
        &'sealwright;help;import;obs-signd'= {
        }
        &'sealwright;help;sign'= {
        }
        &'sealwright;help;resign'= {
        }
        &'sealwright;help;verify'= {
        }
        &'sealwright;help;strip'= {
        }
        &'sealwright;help;inspect'= {
        }
        &'sealwright;help;obs-shadow'= {
        }
        &'sealwright;help;obs-sign'= {
        }
        &'sealwright;help;init'= {
        }
        &'sealwright;help;serve'= {
        }
        &'sealwright;help;front'= {
        }
        &'sealwright;help;signer'= {
        }
        &'sealwright;help;token-keeper'= {
        }
        &'sealwright;help;token-worker'= {
        }
        &'sealwright;help;generate'= {
        }
        &'sealwright;help;help'= {
        }
    ]
    $completions[$command]
}
