//! The protocols that travel inside the program.

/// Name and document of each.
pub const PROTOCOLS: &[(&str, &str)] = &[
    ("cifar10-c", include_str!("../../../../protocols/cifar10-c.toml")),
    ("cifar10-c-gradual", include_str!("../../../../protocols/cifar10-c-gradual.toml")),
    ("imagenet-c-5k", include_str!("../../../../protocols/imagenet-c-5k.toml")),
    (
        "imagenet-c-5k-normalised",
        include_str!("../../../../protocols/imagenet-c-5k-normalised.toml"),
    ),
    ("imagenet-r", include_str!("../../../../protocols/imagenet-r.toml")),
    ("recurring", include_str!("../../../../protocols/recurring.toml")),
    ("mixed", include_str!("../../../../protocols/mixed.toml")),
    ("batch-1", include_str!("../../../../protocols/batch-1.toml")),
    ("embedded", include_str!("../../../../protocols/embedded.toml")),
    ("embedded-gradual", include_str!("../../../../protocols/embedded-gradual.toml")),
    ("embedded-recurring", include_str!("../../../../protocols/embedded-recurring.toml")),
    ("embedded-mixed", include_str!("../../../../protocols/embedded-mixed.toml")),
    ("embedded-batch-1", include_str!("../../../../protocols/embedded-batch-1.toml")),
];

/// The document of this name.
pub fn built_in(name: &str) -> Option<&'static str> {
    PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
