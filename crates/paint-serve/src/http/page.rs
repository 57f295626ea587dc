//! The page and what it is made of.

use axum::Router;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse as _;
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";
const STYLE: &str = "text/css; charset=utf-8";

/// Address, kind and content.
const FILES: [(&str, &str, &str); 7] = [
    ("/", HTML, include_str!("../../page/index.html")),
    ("/app.js", SCRIPT, include_str!("../../page/app.js")),
    ("/charts.js", SCRIPT, include_str!("../../page/charts.js")),
    ("/icon.svg", PICTURE, include_str!("../../page/icon.svg")),
    ("/style.css", STYLE, include_str!("../../page/style.css")),
    ("/uplot.js", SCRIPT, include_str!("../../page/uplot/uPlot.iife.min.js")),
    ("/uplot.css", STYLE, include_str!("../../page/uplot/uPlot.min.css")),
];

/// The page needs no token: it holds no data, and asks for it with the token that the reader gives.
pub(super) fn routes() -> Router {
    FILES.into_iter().fold(Router::new(), |routes, (path, kind, text)| {
        let headers = [
            (CONTENT_TYPE, kind),
            (CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors 'none'"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ];
        routes.route(path, get(move || async move { (headers, text).into_response() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|(_, _, text)| text.len()).sum();
        assert!(bytes < 100_000, "{bytes} bytes");
    }
}
