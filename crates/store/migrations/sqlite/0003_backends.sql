-- Where the private key is: 'software', or 'pkcs11:' and the name of a token. All keys of earlier releases are software.
ALTER TABLE keys ADD COLUMN backend TEXT NOT NULL DEFAULT 'software';
