package main

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// small reduces a picture of a page to its 256 commonest colours, which is all of them but shades of text edges, and packs it tightly.
func small(raw []byte) ([]byte, error) {
	src, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	type count struct {
		c color.RGBA
		n int
	}
	seen := map[color.RGBA]int{}
	b := src.Bounds()
	at := func(x, y int) color.RGBA {
		c := color.RGBAModel.Convert(src.At(x, y)).(color.RGBA)
		c.R, c.G, c.B = c.R&^3|c.R>>6, c.G&^3|c.G>>6, c.B&^3|c.B>>6
		return c
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			seen[at(x, y)]++
		}
	}
	var all []count
	for c, n := range seen {
		all = append(all, count{c, n})
	}
	slices.SortFunc(all, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.c.R, b.c.R), cmp.Compare(a.c.G, b.c.G), cmp.Compare(a.c.B, b.c.B))
	})
	var palette color.Palette
	for _, least := range []int{40, 16, 0} { // first colours that are unlike, so that no accent is lost to shades of grey
		for _, c := range all {
			if len(palette) < 256 && !slices.ContainsFunc(palette, func(p color.Color) bool { return apart(p.(color.RGBA), c.c) <= least }) {
				palette = append(palette, c.c)
			}
		}
	}
	index := map[color.RGBA]uint8{}
	out := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := at(x, y)
			i, ok := index[c]
			if !ok {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var w bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&w, out)
	return w.Bytes(), err
}

// apart is how unlike two colours are.
func apart(a, b color.RGBA) int {
	d := func(x, y uint8) int { return max(int(x)-int(y), int(y)-int(x)) }
	return d(a.R, b.R) + d(a.G, b.G) + d(a.B, b.B)
}
