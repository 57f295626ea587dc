//! The page and what it is made of.

use axum::Router;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::IntoResponse as _;
use axum::routing::get;

/// What is served on both addresses, for programs that write clients.
const OPENAPI: &str = include_str!("../../openapi.json");

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
    let described = Router::new()
        .route("/openapi.json", get(|| async { ([(CONTENT_TYPE, "application/json")], OPENAPI) }));
    FILES.into_iter().fold(described, |routes, (path, kind, text)| {
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

    #[test]
    fn every_address_is_described() {
        let described: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let paths = described["paths"].as_object().unwrap();
        for source in [include_str!("admin.rs"), include_str!("inference.rs")] {
            let quoted = source.split('"').skip(1).step_by(2);
            let found: Vec<&str> =
                quoted.filter(|text| text.starts_with('/') && text.len() > 1).collect();
            assert!(found.len() > 3, "{found:?}");
            // Each model has one version, which need not be named.
            for path in found.iter().filter(|path| !path.contains("/versions/")) {
                let is_known = paths.contains_key(*path)
                    || paths.contains_key(&format!("/v2/models/{{model}}{path}"));
                assert!(is_known, "{path}");
            }
        }
    }
}
