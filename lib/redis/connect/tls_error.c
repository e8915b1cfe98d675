#include "redis/connect/tls_error.h"

#include "redis/server/tls_guard.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

/* The certificate of the server is not accepted. */
static void explain_verification(long error, const char *name, char why[RELOCK_WHY_MAX])
{
    const char *text = X509_verify_cert_error_string(error);

    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the certificate of the server, or of its CA, has expired");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the certificate of the server, or of its CA, is not valid yet: is the "
                       "clock of this machine right?");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the server's certificate is not for %.60s: use a name that it has in the "
                       "url, or set tls_server_name",
                       name);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "no trusted CA has signed the server's certificate (%.60s): set "
                       "tls_ca_file",
                       text);
        break;
    default:
        (void)snprintf(why, RELOCK_WHY_MAX, "the server's certificate is invalid: %.60s", text);
        break;
    }
}

/* Whether the server reports by this alert that it rejects our certificate. */
static bool is_about_our_certificate(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR:
    case SSL_AD_HANDSHAKE_FAILURE: /* also if no cipher is common to both sides */
    case SSL_AD_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

static int explain_alert(const struct ssl_st *ssl, unsigned long error, bool was_asked,
                         char why[RELOCK_WHY_MAX])
{
    const char *text = ERR_reason_error_string(error);
    int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;
    bool is_about_ours = was_asked && is_about_our_certificate(alert);

    if (is_about_ours && !SSL_get_certificate(ssl)) {
        (void)snprintf(
            why, RELOCK_WHY_MAX,
            "the server requires a client certificate: set tls_cert_file and tls_key_file");
        return RELOCK_E_AUTH;
    }
    if (is_about_ours && alert != SSL_AD_HANDSHAKE_FAILURE) {
        (void)snprintf(why, RELOCK_WHY_MAX,
                       "the server rejects the client certificate (%.60s): check tls_cert_file",
                       text);
        return RELOCK_E_AUTH;
    }
    (void)snprintf(why, RELOCK_WHY_MAX, "the server ends the TLS connection: %.100s%s", text,
                   alert == SSL_AD_UNRECOGNIZED_NAME ? ": set tls_server_name" : "");
    return RELOCK_E_CONN;
}

int relock_tls_error(const struct ssl_st *ssl, const char *name, bool was_asked,
                     char why[RELOCK_WHY_MAX])
{
    unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);
    int reason = ERR_GET_REASON(error);

    if (relock_tls_guard_lacked_memory() || SSL_get_verify_result(ssl) == X509_V_ERR_OUT_OF_MEM) {
        (void)snprintf(why, RELOCK_WHY_MAX, "out of memory for TLS");
        return RELOCK_E_NOMEM;
    }
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        explain_verification(SSL_get_verify_result(ssl), name, why);
        return RELOCK_E_AUTH;
    }
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
        return explain_alert(ssl, error, was_asked, why);
    (void)snprintf(why, RELOCK_WHY_MAX, "TLS has failed: %.100s", text ? text : "no reason given");
    return RELOCK_E_CONN;
}
