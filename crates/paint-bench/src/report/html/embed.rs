//! Images on a page.

use std::fmt::Write as _;

use paint_data::Image;
use paint_run::escape::html as escape;

use super::chart::colour;

/// One image of a stream.
#[derive(Debug, Clone)]
pub struct Shot {
    /// The domain it comes from.
    pub domain: String,
    /// As the model saw it.
    pub image: Image,
    /// Its true class.
    pub truth: String,
    /// What each method took it for, in their order.
    pub predicted: Vec<String>,
}

/// A card for each image; `methods` are those of the predictions.
pub(super) fn shot_cards(shots: &[Shot], methods: &[&str]) -> String {
    let mut html = String::from("<div class=\"shots\">");
    for shot in shots {
        let (domain, truth) = (escape(&shot.domain), escape(&shot.truth));
        let image = img(&shot.image, &shot.domain);
        let _ = write!(html, "<figure>{image}<figcaption>{domain}<br><span>{truth}</span>");
        for (i, (method, class)) in methods.iter().zip(&shot.predicted).enumerate() {
            let bad = if *class == shot.truth { "" } else { " class=\"bad\"" };
            let (key, method, class) = (key(&colour(i)), escape(method), escape(class));
            let _ = write!(html, "<br>{key}<span{bad} title=\"{method}\">{class}</span>");
        }
        html.push_str("</figcaption></figure>");
    }
    html + "</div>"
}

/// A small square of a colour.
pub(super) fn key(colour: &str) -> String {
    format!("<span class=\"key\" style=\"background:{colour}\"></span>")
}

/// An image inside the page; one that cannot be encoded is left out.
pub(super) fn img(image: &Image, name: &str) -> String {
    let mut bytes = Vec::new();
    let data = match image.write_png(&mut bytes) {
        Ok(()) => format!("data:image/png;base64,{}", base64(&bytes)),
        Err(_) => String::new(),
    };
    format!("<img alt=\"{}\" src=\"{data}\">", escape(name))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(*group.get(i).unwrap_or(&0)));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize] as char;
            text.push(if i <= group.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_examples_of_rfc_4648() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
