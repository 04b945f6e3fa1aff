// For tests: authorities and certificates, made on the spot.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "transport/sockets/tls_options.h"

namespace tombolo::transport::test::certificates {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

struct Identity {
  Key key;
  Certificate certificate;
};

constexpr long kHour = 3600;

/// Valid from an hour ago until so many seconds from now. `by` null: an authority that signs itself.
inline Identity make_identity(const std::string& name, const Identity* by, long valid_seconds = kHour) {
  Identity made{Key(EVP_EC_gen("P-256")), Certificate(X509_new())};
  X509* certificate = made.certificate.get();
  static long serial = 1;
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate), valid_seconds);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  const Identity& signer = by != nullptr ? *by : made;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get()));
  if (by == nullptr) {
    X509_EXTENSION* is_authority =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(certificate, is_authority, -1);
    X509_EXTENSION_free(is_authority);
  }
  EXPECT_NE(X509_sign(certificate, signer.key.get(), EVP_sha256()), 0);
  return made;
}

/// A folder of PEM files that goes with its owner.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tombolo-tls-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const Certificate& certificate) const {
    EXPECT_EQ(PEM_write_X509(open(name).get(), certificate.get()), 1);
    return path(name);
  }
  std::string write(const std::string& name, const Key& key) const {
    EXPECT_EQ(PEM_write_PrivateKey(open(name).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
    return path(name);
  }
  /// Files and options of a rank with that certificate, which trusts that authority.
  TlsOptions options(const std::string& rank, const Identity& identity, const Identity& authority) const {
    return {TlsUse::kOn, write(rank + ".crt", identity.certificate), write(rank + ".key", identity.key),
            write(rank + "-authority.crt", authority.certificate)};
  }

 private:
  std::unique_ptr<std::FILE, Free> open(const std::string& name) const {
    return std::unique_ptr<std::FILE, Free>(std::fopen(path(name).c_str(), "w"));
  }
  std::filesystem::path path_;
};

}  // namespace tombolo::transport::test::certificates
