//! Who may ask: everybody on this machine, and beyond it who knows the token.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::options::Options;

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    /// Programs ask, often through proxies.
    Inference,
    /// The same programs ask, in another language.
    Grpc,
    /// A browser asks, in which pages of strangers may be open.
    Administration,
}

/// The rule of a listener.
pub(crate) struct Access {
    /// SHA-256 of the token.
    token: Option<[u8; 32]>,
    surface: Surface,
}

impl Access {
    /// The rule for an address; one that others can reach needs a token, or the word of the user.
    pub(crate) fn new(address: SocketAddr, surface: Surface, options: &Options) -> Result<Self> {
        if options.token.is_none() && !options.insecure && !address.ip().is_loopback() {
            return Err(Error::Open { address });
        }
        let token = options.token.as_ref().map(|token| Sha256::digest(token.as_bytes()).into());
        Ok(Self { token, surface })
    }

    fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> std::result::Result<(), Fault> {
        if path.starts_with("/v2/health/") {
            return Ok(());
        }
        if let Some(token) = &self.token {
            let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
            let given: [u8; 32] = Sha256::digest(given.trim().as_bytes()).into();
            // Every byte is compared, so that the time tells nothing.
            let differs = token.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b));
            return if differs == 0 { Ok(()) } else { Err(Fault::Token) };
        }
        if self.surface == Surface::Administration {
            own_page(method, headers)?;
        }
        Ok(())
    }
}

/// Refuses what a page of another site sends to this machine, by its origin or under a name of its own.
fn own_page(method: &Method, headers: &HeaderMap) -> std::result::Result<(), Fault> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(HOST).unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    if !is_address && name != "localhost" {
        let found =
            format!("administration: expected localhost or an address as host, found {host:?}");
        return Err(Fault::Foreign(found));
    }
    let origin = text(ORIGIN).filter(|_| method != Method::GET);
    if origin.is_some_and(|origin| origin.split_once("://").map(|(_, host)| host) != Some(host)) {
        let found = format!("administration: expected this server's own page, found {origin:?}");
        return Err(Fault::Foreign(found));
    }
    Ok(())
}

/// Lets a request through or refuses it.
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let checked = access.check(request.method(), request.uri().path(), request.headers());
    match checked {
        Ok(()) => next.run(request).await,
        Err(fault) => fault.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn access(address: &str, token: Option<&str>) -> Result<Access> {
        let options = Options { token: token.map(str::to_owned), ..Options::new("x") };
        Access::new(address.parse().unwrap(), Surface::Administration, &options)
    }

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn beyond_this_machine_a_token_is_demanded() {
        assert!(matches!(access("0.0.0.0:1", None), Err(Error::Open { .. })));
        assert!(access("[::1]:1", None).is_ok());
        let access = access("0.0.0.0:1", Some("secret")).unwrap();
        let check = |value: &str| {
            access.check(&Method::GET, "/metrics", &headers(&[(AUTHORIZATION, value)]))
        };
        assert_eq!(check("Bearer secret"), Ok(()));
        for bad in ["Bearer secre", "Bearer secret2", "secret", "Bearer ", "Basic secret"] {
            assert_eq!(check(bad), Err(Fault::Token), "{bad}");
        }
        assert_eq!(access.check(&Method::GET, "/v2/health/live", &HeaderMap::new()), Ok(()));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = access("127.0.0.1:8002", None).unwrap();
        let post =
            |pairs: &[(HeaderName, &str)]| access.check(&Method::POST, "/x", &headers(pairs));
        let host = (HOST, "127.0.0.1:8002");
        assert_eq!(post(std::slice::from_ref(&host)), Ok(()));
        assert_eq!(post(&[host.clone(), (ORIGIN, "http://127.0.0.1:8002")]), Ok(()));
        assert_eq!(post(&[(HOST, "[::1]:8002")]), Ok(()));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9"] {
            assert!(matches!(post(&[host.clone(), (ORIGIN, origin)]), Err(Fault::Foreign(_))));
        }
        assert!(matches!(post(&[(HOST, "evil.example:8002")]), Err(Fault::Foreign(_))));
    }
}
