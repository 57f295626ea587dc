//! The fifteen benchmark corruptions and the four held-out ones (Hendrycks & Dietterich, arXiv:1903.12261).
