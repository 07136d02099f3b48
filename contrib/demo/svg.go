package main

func (r *result) svg() string { return "" }
