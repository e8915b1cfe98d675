#include "support/certs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char script[] =
    "set -e\n"
    "cd \"$CERTS\"\n"
    "make_key() { openssl ecparam -name prime256v1 -genkey -noout -out \"$1\"; }\n"
    /* file, name */
    "make_ca() {\n"
    "    make_key \"$1.key\"\n"
    "    openssl req -x509 -key \"$1.key\" -subj \"/CN=$2\" -days 2 -out \"$1.pem\"\n"
    "}\n"
    /* file, key, CA, days, names */
    "sign() {\n"
    "    echo \"subjectAltName=$5\" >names\n"
    "    openssl req -new -key \"$2\" -subj '/CN=relock test' -out request\n"
    "    openssl x509 -req -in request -CA \"$3.pem\" -CAkey \"$3.key\" -CAcreateserial \\\n"
    "        -days \"$4\" -extfile names -out \"$1\"\n"
    "}\n"
    "here=DNS:localhost,IP:127.0.0.1,IP:::1\n"
    "make_ca ca 'relock test CA'\n"
    "make_ca strangers-ca 'another CA'\n"
    "make_key key.pem\n"
    "make_key client.key\n"
    "openssl genpkey -algorithm ed25519 -out other-type.key\n"
    "sign server.pem key.pem ca 2 \"$here\"\n"
    "sign expired.pem key.pem ca -1 \"$here\"\n"
    "sign other.pem key.pem ca 2 DNS:other.example\n"
    "sign stranger.pem key.pem strangers-ca 2 \"$here\"\n"
    "openssl req -x509 -key key.pem -subj /CN=localhost -days 2 -out self.pem\n"
    "sign client.pem client.key ca 2 DNS:client\n"
    "sign strange-client.pem client.key strangers-ca 2 DNS:client\n"
    "cat client.key >>client.pem\n"
    "cat client.key >>strange-client.pem\n"
    "openssl pkey -in client.key -aes128 -passout pass:secret -out locked.key\n";

bool certs_make(const char *dir)
{
    char command[sizeof(script) + 256];
    int status;

    if (system("command -v openssl >/dev/null") != 0) {
        fprintf(stderr, "no openssl command: skipped\n");
        return false;
    }
    snprintf(command, sizeof(command), "CERTS='%s'; exec 2>\"$CERTS/log\" >&2\n%s", dir, script);
    status = system(command);
    if (status != 0) {
        fprintf(stderr, "certs: openssl has failed: see %s/log\n", dir);
        exit(EXIT_FAILURE);
    }
    return true;
}
