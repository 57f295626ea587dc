//! TLS, if the program was built with it.

use super::Wire;
use crate::error::{Error, Result};
use crate::options::Tls;

/// What turns a connection into one that nobody else can read.
#[cfg(feature = "tls")]
pub(crate) type Secure = tokio_rustls::TlsAcceptor;

/// Nothing does without the feature.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) enum Secure {}

#[cfg(not(feature = "tls"))]
impl Secure {
    /// There is none to do it.
    pub(super) fn accept(
        &self,
        _: tokio::net::TcpStream,
    ) -> std::future::Ready<std::io::Result<tokio::net::TcpStream>> {
        match *self {}
    }
}

#[cfg(not(feature = "tls"))]
pub(crate) fn secure(_: &Tls, _: Wire) -> Result<Secure> {
    let expected =
        "TLS: expected a program built with it (cargo build -p paint-cli --features tls)";
    Err(Error::Usage(format!("{expected}, found one without")))
}

/// Reads certificates and key.
#[cfg(feature = "tls")]
pub(crate) fn secure(tls: &Tls, wire: Wire) -> Result<Secure> {
    use std::sync::Arc;

    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let bad = |what: &str, path: &std::path::Path, found: String| {
        Error::Usage(format!("{what}: expected PEM, found {found}: {}", path.display()))
    };
    let read = |error: tokio_rustls::rustls::pki_types::pem::Error| error.to_string();
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| bad("certificate", &tls.certificate, read(error)))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| bad("key", &tls.key, read(error)))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    let mut config =
        config.map_err(|error| bad("certificate and key", &tls.certificate, error.to_string()))?;
    config.alpn_protocols = vec![wire.name().to_vec()];
    Ok(Arc::new(config).into())
}
