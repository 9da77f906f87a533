"""x"""
import typer

group = typer.Typer()
