//! Input and output: connections, addresses, and what is served there. Nothing is computed here.

mod access;
mod admin;
mod app;
mod body;
mod connections;
#[cfg(feature = "grpc")]
mod grpc;
mod inference;
mod page;
mod secure;

pub(crate) use access::{Access, Surface};
pub(crate) use app::App;
pub(crate) use connections::{Service, Wire, serve};
pub(crate) use secure::{Secure, secure};

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;

impl Surface {
    /// What is served there.
    pub(crate) fn routes(self, app: &Arc<App>, access: Access) -> Router {
        let routes = match self {
            Self::Inference => inference::routes(),
            Self::Administration => admin::routes(),
            Self::Grpc => grpc_routes(),
        };
        let routes = routes.with_state(Arc::clone(app));
        let routes = routes.layer(from_fn_with_state(Arc::new(access), access::check));
        if self == Self::Administration { routes.merge(page::routes()) } else { routes }
    }

    /// What is spoken there.
    pub(crate) fn wire(self) -> Wire {
        match self {
            #[cfg(feature = "grpc")]
            Self::Grpc => Wire::Http2,
            _ => Wire::Http1,
        }
    }
}

#[cfg(feature = "grpc")]
fn grpc_routes() -> Router<Arc<App>> {
    grpc::routes()
}

/// Options that ask for it are refused.
#[cfg(not(feature = "grpc"))]
fn grpc_routes() -> Router<Arc<App>> {
    Router::new()
}
