//! Input and output: connections, addresses, and what is served there. Nothing is computed here.

mod access;
mod admin;
mod app;
mod connections;
mod inference;
mod page;

pub(crate) use access::{Access, Surface};
pub(crate) use app::App;
pub(crate) use connections::serve;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;

/// What is served to clients.
pub(crate) fn inference(app: &Arc<App>, access: Access) -> Router {
    let access = Arc::new(access);
    inference::routes().with_state(Arc::clone(app)).layer(from_fn_with_state(access, access::check))
}

/// What is served to the people who run the server.
pub(crate) fn administration(app: &Arc<App>, access: Access) -> Router {
    let access = Arc::new(access);
    let data = admin::routes().with_state(Arc::clone(app));
    data.layer(from_fn_with_state(access, access::check)).merge(page::routes())
}
