//! What `sign --help` and the manual page say.

/// Of `sign`, and of `sealwright obs-sign`.
pub(crate) const HELP: &str = "\
usage: sign [--config FILE] OPTIONS [FILE...]

The command line of obs-sign's sign. Called by the name sign (a link to
this program), or as sealwright obs-sign. Without FILE, standard input is
signed to standard output.

MODES:
  -r             sign packages where they are
  -d             detached signature, FILE.asc
  -D             detached signature in binary, FILE.sig
  -c             clear-sign texts where they are
                 (no mode: -r for .rpm and .spm, else -c)
  --delsign      remove the signatures of packages: the unsigned bytes
  -p             print the public key
  -k             print the key id, short
  --full-keyid   print the key id
  --fingerprint  print the fingerprint of the key that signs
  -t             does the server answer?

MODES, with a signd alone:
  -O             bare RSA signature (PKCS#1 v1.5), FILE.sig
  -g TYPE DAYS NAME EMAIL
                 have a key made that is kept here: its secret half,
                 encrypted, goes to the file of -P, its public key to
                 standard output
  -x DAYS PUBKEY print the public key with so many days from now
  -C PUBKEY      print an X.509 certificate for the public key

OPTIONS:
  -u USER        the key: its name at the server, exactly. Default:
                 user: in sign.conf
  -h HASH        sha256 (default) or sha512; sha1 becomes sha256
  -A ALGORITHM   fail unless the key is of it: rsa, eddsa
  -T SECONDS     time in the signature; signd only
  -S FILE        append checksums of the written packages (- is standard
                 output)
  -v             name each file
  -3, -4         signatures are OpenPGP version 4 in any case
  --noheaderonly sign header and payload of packages instead of the
                 header alone
  --keep-signed  leave packages that are signed; otherwise they are
                 signed again
  -P FILE        sign with this key, which -g made; signd only
  --public-key FILE
                 the public key of -P: what it signs is verified with it
  --bulk-cpio    with -O: FILE is a cpio archive (newc); FILE.sig is one
                 of the signatures of its files
  --config FILE  sign.conf; default: /etc/sign.conf

SERVER:
  SEALWRIGHT_SERVER or client.toml name a server of Sealwright, as for
  sealwright sign. Without them, the signd of sign.conf is asked over its
  own protocol; without sign.conf, the keys of this user are used.

EXIT STATUS:
  0  everything was done
  1  at least one file failed (the others are signed), or wrong usage";
